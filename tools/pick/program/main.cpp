// tandem-pick: the program that `tandem pick` becomes after it has checked the settings.
//
// Threads: main waits for signals; gRPC's threads carry the streams and decide; the picker's loop
// listens to the engines; the HTTP server's threads answer operators.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/http/client/http_address.h"
#include "base/http/http_server.h"
#include "base/log/log.h"
#include "scheduler/cluster/membership/named_engines.h"
#include "scheduler/cluster/picker/endpoint.h"
#include "scheduler/cluster/picker/envoy/ext_proc_server.h"
#include "scheduler/cluster/picker/picker_front.h"
#include "scheduler/cluster/picker/picker_host.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/output.h"
#include "tools/cli/signals.h"
#include "tools/pick/pick.h"
#include "tools/pick/pick_settings.h"

namespace tandem {
namespace {

constexpr Duration kStopPatience = std::chrono::seconds(5);

HttpOptions metrics_options(const PickSettings& settings) {
  HttpOptions http;
  http.host = settings.metrics_host;
  http.port = settings.metrics_port;
  http.max_body_bytes = 1024;
  http.max_connections = 64;
  http.keep_alive = std::chrono::seconds(75);
  http.client_timeout = std::chrono::seconds(20);
  http.worker_threads = 1;
  return http;
}

Status pick(const PickSettings& settings) {
  TANDEM_ASSIGN(const auto signals, StopSignals::create());
  TANDEM_ASSIGN(auto source, engine_source(settings.engines, {.resolve = numeric_address}));
  TANDEM_ASSIGN(const auto host, PickerHost::create(settings.picker, std::move(source)));
  PickerFront front(*host, settings.metrics_without_key);
  HttpServer metrics(metrics_options(settings), front);
  ExtProcServer server({settings.host, settings.port, settings.picker.max_body_bytes}, *host);
  if (Status started = metrics.start(); !started) return started.with_context("metrics_port");
  TANDEM_TRY(server.start());
  host->start([&server](bool ready) { server.set_ready(ready); });
  signals->set_graceful(true);  // before the address is announced: a client may ask for the end
  log::info("metrics on {}/metrics", HttpAddress{settings.metrics_host, metrics.port()}.text());
  log::info("listening on {} for Envoy, in front of {}, by policy {}",
            HttpAddress{settings.host, server.port()}.authority(), settings.engines.in_words(),
            settings.picker.policy);
  signals->wait();
  signals->exit_after(kStopPatience);
  server.stop();
  host->stop();
  metrics.stop();
  log::info("signal {}: stopped", signals->signal_number());
  return {};
}

int run(const std::vector<std::string>& args) {
  std::signal(SIGPIPE, SIG_IGN);  // a log reader that goes away must not end this process
  PickSettings settings;
  SettingsTable table;
  add_pick_settings(table, settings);
  CommandInfo command = pick_command();
  command.keys_are_judged = true;  // checked by `tandem pick`, which knows the keys of all commands
  if (const auto status = read_settings(command, table, args)) return *status;
  set_up_log(settings.log);
  const Status status = pick(settings);
  return status ? kExitOk : report_failure(pick_command(), status);
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  return tandem::run_program("tandem pick", [&] { return tandem::run({argv + 1, argv + argc}); });
}
