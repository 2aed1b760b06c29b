// tandem drain: empties an engine, whose streams go on elsewhere.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include "base/http/client/http_client.h"
#include "base/settings/settings.h"
#include "scheduler/cluster/engine_report.h"
#include "tools/cli/flags/flags.h"
#include "tools/route/route.h"

namespace tandem {
namespace {

const CommandInfo kDrainInfo{
    "drain", "ENGINE_URL [flags]",
    "Takes an engine out of service: it gets nothing new, its streams go on at other engines\n"
    "(those that came by a router), and the command ends when the engine has nothing to do. It "
    "can\n"
    "then be stopped, or taken back by --back.",
    "  tandem drain http://127.0.0.1:8001 && kill ENGINE"};

constexpr int kOk = 200;
constexpr Duration kLook = std::chrono::milliseconds(100);
constexpr Duration kPatience = std::chrono::seconds(10);  // for one answer

struct DrainSettings {
  std::string api_key;
  bool hand_over = true;
  bool back = false;
  double timeout_s = 600;
};

struct Answer {
  int status = 0;
  std::string body;
};

// Runs a loop of its own until the answer is there.
class Question final : CallEvents {
 public:
  Result<Answer> ask(const HttpAddress& address, const CallRequest& request) {
    HttpClient client(loop_);
    const auto call =
        client.call(address, request,
                    {.connect = kPatience, .first_byte = kPatience, .between = kPatience}, *this);
    loop_.run();
    if (!failure_) return failure_.with_context(address.text());
    return answer_;
  }

 private:
  void on_head(const CallHead& head) override { answer_.status = head.status; }
  void on_bytes(std::string_view bytes) override {
    answer_.body += bytes;
    if (answer_.body.size() <= kMaxReportBytes) return;
    failure_ = invalid("the answer is too long");
    loop_.stop();
  }
  void on_end(CallEnd end, std::string_view reason) override {
    if (end != CallEnd::complete) failure_ = error(StatusCode::unavailable, "{}", reason);
    loop_.stop();
  }

  EventLoop loop_;
  Answer answer_;
  Status failure_;
};

Result<Answer> ask(const HttpAddress& engine, const DrainSettings& settings, CallRequest request) {
  if (!settings.api_key.empty()) {
    request.headers.emplace_back("Authorization", "Bearer " + settings.api_key);
  }
  TANDEM_ASSIGN(Answer answer, Question().ask(engine, request));
  if (answer.status == kOk) return answer;
  return error(StatusCode::unavailable, "{}: {} {} answered {}{}", engine.text(), request.method,
               request.target, answer.status,
               answer.status == 401 ? "; give its key by --api-key or TANDEM_API_KEY" : "");
}

Status drain(const std::string& url, const DrainSettings& settings) {
  TANDEM_ASSIGN(const HttpAddress engine, HttpAddress::parse(url));
  CallRequest order;
  order.method = "POST";
  order.target = "/v1/drain";
  order.body = settings.back ? R"({"drain":false})"
                             : fmt::format(R"({{"hand_over":{}}})", settings.hand_over);
  TANDEM_ASSIGN(const Answer taken, ask(engine, settings, std::move(order)));
  if (settings.back) {
    fmt::print("{} is back in service\n", engine.text());
    return {};
  }
  CallRequest look;
  look.target = "/v1/stats";
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t told = -1;;) {
    TANDEM_ASSIGN(const Answer answer, ask(engine, settings, look));
    TANDEM_ASSIGN(const EngineReport report, read_report(answer.body));
    const std::int64_t left = report.view.requests();
    if (left == 0) break;
    if (left != told) {
      fmt::print("{}: {} running, {} waiting\n", engine.text(), report.view.running.requests,
                 report.view.waiting.requests);
      std::fflush(stdout);
    }
    told = left;
    const auto passed = std::chrono::steady_clock::now() - begin;
    if (std::chrono::duration<double>(passed).count() > settings.timeout_s) {
      return error(StatusCode::unavailable,
                   "{}: {} requests still run after {} s; it stays out of service, and "
                   "`tandem drain {} --back` takes it back",
                   engine.text(), left, settings.timeout_s, url);
    }
    std::this_thread::sleep_for(kLook);
  }
  fmt::print("{} is empty and gets nothing new\n", engine.text());
  return {};
}

}  // namespace

int run_drain(const std::vector<std::string>& args) {
  std::vector<std::string> engines;
  DrainSettings settings;
  SettingsTable table;
  table.group("Drain");
  table.add(settings.api_key, "api_key", "the engine's key").meta("KEY").secret();
  table.add(settings.hand_over, "hand_over", "streams go on elsewhere now; else they end here")
      .flag_only();
  table.add(settings.back, "back", "take the engine back into service instead").flag_only();
  table.add(settings.timeout_s, "timeout_s", "wait this long for the engine to be empty")
      .meta("SECONDS")
      .range(0, 86400)
      .flag_only();
  const GivenBeside beside{.words = &engines, .least_words = 1, .word = "engine"};
  if (const auto status = read_settings(kDrainInfo, table, args, beside)) return *status;
  const Status status = drain(engines.front(), settings);
  return status ? kExitOk : report_failure(kDrainInfo, status);
}

}  // namespace tandem
