#include "tools/cli/serving.h"

#include <chrono>
#include <csignal>

#include "base/http/client/http_address.h"
#include "base/log/log.h"
#include "tools/cli/machine.h"

namespace tandem {

void make_room_for_connections(std::int64_t max_connections, std::int64_t files_each) {
  constexpr std::int64_t kOtherFiles = 128;  // refused connections, adapters being loaded, the log
  const auto wanted = static_cast<std::size_t>(files_each * max_connections + kOtherFiles);
  if (const std::size_t allowed = allow_open_files(wanted); allowed < wanted) {
    log::warning("{} open files are allowed, too few for max_connections {}; raise ulimit -n to {}",
                 allowed, max_connections, wanted);
  }
}

std::string listening_url(const std::string& host, int port) {
  return HttpAddress{host, port}.text();
}

void warn_of_open_host(const std::string& host, const std::string& api_key) {
  const bool own = host.starts_with("127.") || host == "::1" || host == "localhost";
  if (own || !api_key.empty()) return;
  log::warning(
      "host {} can be reached from other machines, and there is no api_key: whoever reaches it may "
      "use it; set TANDEM_API_KEY, or keep to --host 127.0.0.1",
      host);
}

int report_serving_failure(const CommandInfo& command, const Status& status) {
  const int exit_status = report_failure(command, status);
  const bool wrong_setting =
      status.code() == StatusCode::not_found || status.code() == StatusCode::permission_denied;
  return wrong_setting ? kExitUsage : exit_status;
}

void bound_the_end(StopSignals& signals, double drain_timeout_s) {
  signals.exit_after(duration_of(drain_timeout_s) + std::chrono::seconds(1));
}

int drain_after_signal(StopSignals& signals, double drain_timeout_s,
                       const std::function<bool(Duration timeout)>& drain_and_stop) {
  bound_the_end(signals, drain_timeout_s);  // before anything that could block, the log included
  log::info("signal {}: draining for at most {} s; a second signal ends it at once",
            signals.signal_number(), drain_timeout_s);
  if (drain_and_stop(duration_of(drain_timeout_s))) {
    log::info("drained, stopped");
  } else {
    log::warning("stopped with requests unfinished: drain_timeout_s passed");
  }
  const int number = signals.signal_number();
  const int status = number == SIGHUP ? 128 + number : kExitOk;
  signals.set_late_status(status);  // only the end of the engine may still hang from here on
  return status;
}

}  // namespace tandem
