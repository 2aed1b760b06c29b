#include "tools/cli/serving.h"

#include <fmt/format.h>

#include <chrono>

#include "base/log.h"
#include "tools/cli/machine.h"

namespace tandem {

void make_room_for_connections(std::int64_t max_connections, std::int64_t files_each) {
  constexpr std::int64_t kOtherFiles = 128;  // refusals, adapters being loaded, the log
  const auto wanted = static_cast<std::size_t>(files_each * max_connections + kOtherFiles);
  if (const std::size_t allowed = allow_open_files(wanted); allowed < wanted) {
    log::warning("{} open files are allowed, too few for max_connections {}; raise ulimit -n to {}",
                 allowed, max_connections, wanted);
  }
}

std::string listening_url(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

void bound_the_end(StopSignals& signals, double drain_timeout_s) {
  signals.exit_after(duration_of(drain_timeout_s) + std::chrono::seconds(1));
}

void drain_after_signal(StopSignals& signals, double drain_timeout_s,
                        const std::function<bool(Duration timeout)>& drain_and_stop) {
  bound_the_end(signals, drain_timeout_s);  // before anything that could wait, the log included
  log::info("signal {}: draining for at most {} s; a second signal ends it at once",
            signals.signal_number(), drain_timeout_s);
  if (drain_and_stop(duration_of(drain_timeout_s))) {
    log::info("drained, stopped");
  } else {
    log::warning("stopped with requests unfinished: drain_timeout_s passed");
  }
}

}  // namespace tandem
