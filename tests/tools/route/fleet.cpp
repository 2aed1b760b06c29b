#include "tests/tools/route/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "tests/scheduler/cluster/registry/etcd_process.h"
#include "tests/tools/route/stream_calls.h"

namespace tandem {
namespace {

std::string end_of(const std::string& log) {
  constexpr std::size_t kBytes = 4000;
  return log.substr(log.size() - std::min(log.size(), kBytes));
}

}  // namespace

Fleet::Fleet(std::string registry_url, double heartbeat_s)
    : registry_url_(std::move(registry_url)), heartbeat_s_(fmt::format("{}", heartbeat_s)) {}

void Fleet::start_engine(std::size_t i) {
  if (i == engines_.size()) engines_.emplace_back().wire = std::make_unique<TcpProxy>();
  Engine& engine = engines_[i];
  engine.port = 0;
  engine.wire->lead_to(0);
  std::vector<std::string> words = engine_words();
  words.insert(words.end(),
               {"--registry", registry_url_, "--advertise",
                fmt::format("http://127.0.0.1:{}", engine.wire->port()), "--threads", "1",
                "--cpu-workers", "0", "--no-request-log", "--max-num-seqs", "64"});
  engine.process = std::make_unique<Process>(words);
}

void Fleet::start_router(std::size_t i) {
  if (i == routers_.size()) {
    routers_.emplace_back().port = std::stoi(testing::free_endpoint().port);
  }
  routers_[i].process = std::make_unique<Process>(std::vector<std::string>{
      "route", "--port", std::to_string(routers_[i].port), "--registry", registry_url_,
      "--heartbeat-timeout-s", heartbeat_s_, "--policy", "round_robin"});
}

void Fleet::end(std::unique_ptr<Process>& process) {
  process->send_signal(SIGKILL);
  process.reset();
}

std::vector<int> Fleet::router_ports() const {
  std::vector<int> ports;
  for (const Router& router : routers_) ports.push_back(router.port);
  return ports;
}

void Fleet::read_logs() {
  for (Engine& engine : engines_) {
    if (engine.process == nullptr) continue;
    engine.process->read_what_is_there();
    if (engine.port != 0) continue;
    engine.port = listening_port(*engine.process);
    engine.wire->lead_to(engine.port);
  }
  for (Router& router : routers_) {
    if (router.process != nullptr) router.process->read_what_is_there();
  }
}

bool Fleet::whole(std::size_t engines) {
  read_logs();
  for (const Router& router : routers_) {
    if (router.process == nullptr) continue;
    const std::string answer = HttpExchange(router.port, "GET", "/v1/stats", "").read_all();
    const std::size_t body = answer.find("\r\n\r\n");
    if (body == std::string::npos) return false;
    const auto stats = nlohmann::json::parse(answer.substr(body + 4), nullptr, false);
    if (!stats.is_object()) return false;
    std::size_t accepting = 0;
    for (const auto& engine : stats["engines"]) accepting += engine["accepts"] == true ? 1 : 0;
    if (accepting != engines) return false;
  }
  return true;
}

std::string Fleet::logs() {
  read_logs();
  std::string all;
  for (std::size_t i = 0; i < routers_.size(); ++i) {
    if (routers_[i].process == nullptr) continue;
    all += fmt::format("\nrouter {}:\n{}", i, end_of(routers_[i].process->error()));
  }
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    if (engines_[i].process == nullptr) continue;
    all += fmt::format("\nengine {}:\n{}", i, end_of(engines_[i].process->error()));
  }
  return all;
}

}  // namespace tandem
