#include "tools/bench/relay_cost.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <thread>

#include "base/log/log.h"
#include "scheduler/cluster/router/front/router_server.h"
#include "tools/bench/relay_stub.h"
#include "tools/cli/machine.h"

namespace tandem {
namespace {

constexpr int kRounds = 4;  // each through the router, then directly

class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_.data()) != 0) ends_ = {-1, -1};
  }
  ~Pipe() {
    close(0);
    close(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int end(std::size_t which) const { return ends_[which]; }
  void close(std::size_t which) {
    if (ends_[which] >= 0) ::close(ends_[which]);
    ends_[which] = -1;
  }

 private:
  std::array<int, 2> ends_{};
};

double cpu_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Result<RelayFound> run_load(int port, std::int64_t requests, int in, int out) {
  const RelayOrder order{port, requests};
  RelayFound found;
  if (::write(out, &order, sizeof(order)) != sizeof(order) ||
      ::read(in, &found, sizeof(found)) != sizeof(found)) {
    return error(StatusCode::internal, "the process of the stub engines has ended");
  }
  if (found.failed > 0) {
    return error(StatusCode::internal, "{} of {} streams were not whole", found.failed, requests);
  }
  return found;
}

void add(const RelayDelay& delay, RelayDelay& sum) {
  sum.first_event_us += delay.first_event_us / kRounds;
  sum.event_us += delay.event_us / kRounds;
}

double memory_mib() {
  return static_cast<double>(resident_bytes()) / (1 << 20);
}

Result<RelayCost> measure(const RelayLoad& load, int in, int out) {
  std::array<int, 2> ports{};
  if (::read(in, ports.data(), sizeof(ports)) != sizeof(ports)) {
    return error(StatusCode::internal, "the stub engines do not start");
  }
  RouterServerOptions options;
  options.port = 0;
  TANDEM_ASSIGN(const auto server,
                RouterServer::create(options, std::make_unique<FixedEngines>(std::vector{
                                                  HttpAddress{"127.0.0.1", ports[0]},
                                                  HttpAddress{"127.0.0.1", ports[1]}})));
  TANDEM_TRY(server->start());
  for (int i = 0; i < 1000 && !server->ready(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // Warm-up: opens connections and touches memory.
  for (const int port : {server->port(), ports[0]}) {
    TANDEM_ASSIGN([[maybe_unused]] const RelayFound warm,
                  run_load(port, load.concurrent * 2, in, out));
  }
  RelayCost cost;
  double router_s = 0;
  const std::int64_t requests = std::max<std::int64_t>(load.requests / kRounds, 1);
  for (int round = 0; round < kRounds; ++round) {
    const double before_s = cpu_s();
    TANDEM_ASSIGN(const RelayFound relayed, run_load(server->port(), requests, in, out));
    cost.cpu_us += (cpu_s() - before_s) / static_cast<double>(requests * kRounds) * 1e6;
    router_s += relayed.seconds;
    add(relayed.delay, cost.relayed);
    TANDEM_ASSIGN(const RelayFound direct, run_load(ports[0], requests, in, out));
    add(direct.delay, cost.direct);
    if (round == 0) cost.grown_mib = -memory_mib();
  }
  cost.requests_per_s = static_cast<double>(requests * kRounds) / router_s;
  cost.memory_mib = memory_mib();
  cost.grown_mib += cost.memory_mib;
  return cost;
}

}  // namespace

Result<RelayCost> measure_relay(const RelayLoad& load) {
  Pipe to_child;
  Pipe from_child;
  if (to_child.end(0) < 0 || from_child.end(0) < 0) return errno_status("pipe", errno);
  const pid_t child = ::fork();
  if (child < 0) return errno_status("fork", errno);
  if (child == 0) {
    to_child.close(1);
    from_child.close(0);
    run_relay_stub(load, to_child.end(0), from_child.end(1));
    ::_exit(0);
  }
  to_child.close(0);
  from_child.close(1);
  Result<RelayCost> cost = measure(load, from_child.end(0), to_child.end(1));
  to_child.close(1);  // the child ends then
  ::waitpid(child, nullptr, 0);
  return cost;
}

}  // namespace tandem
