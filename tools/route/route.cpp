// tandem route: the router in front of several engines.
//
// Threads: main waits for signals; the server and the router have threads of their own.
#include "tools/route/route.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <memory>

#include "base/log/log.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/serving.h"
#include "tools/cli/signals.h"
#include "tools/cli/version.h"
#include "tools/route/route_settings.h"

namespace tandem {
namespace {

const CommandInfo kRouteInfo{
    "route", "--engine URL [--engine URL ...] | --registry URL [flags]",
    "One address in front of several engines (`tandem serve`): each request goes to the engine\n"
    "that a policy chooses by ranks, residency and load, and continues at another engine if that\n"
    "one dies or drains. SIGTERM or Ctrl-C drains the router itself; a second signal ends it at\n"
    "once. SIGHUP drains it as well, and ends it with status 129: a supervisor starts it with its\n"
    "new settings.",
    "  tandem route --engine http://127.0.0.1:8001 --engine http://127.0.0.1:8002\n"
    "  tandem route --registry etcd://10.0.0.1:2379,10.0.0.2:2379"};

// Returns the exit status.
Result<int> route(const RouteSettings& settings) {
  TANDEM_ASSIGN(const auto signals, StopSignals::create());
  const RouterServerOptions& options = settings.server;
  TANDEM_ASSIGN(auto source, engine_source(settings.engines));
  TANDEM_ASSIGN(const auto tracing,  // outlives the router and server, which use it; null: off
                start_tracing(settings.tracing, "tandem route", utc_now()));
  warn_of_open_host(options.host, options.api_key);
  make_room_for_connections(options.max_connections, 2);  // one to the client, one to the engine
  TANDEM_ASSIGN(const auto server, RouterServer::create(options, std::move(source)));
  TANDEM_TRY(server->start());
  signals->set_graceful(true);  // before the address is announced: a client may ask for the end
  log::info("listening on {}, in front of {}, by policy {}",
            listening_url(options.host, server->port()), settings.engines.in_words(),
            options.router.policy);
  signals->wait();
  return drain_after_signal(*signals, settings.drain_timeout_s,
                            [&](Duration timeout) { return server->drain_and_stop(timeout); });
}

}  // namespace

int run_route(const std::vector<std::string>& args) {
  std::signal(SIGPIPE, SIG_IGN);  // a log reader that goes away must not end this process
  RouteSettings settings;
  SettingsTable table;
  add_route_settings(table, settings);
  if (const auto status = read_settings(kRouteInfo, table, args)) return *status;
  if (settings.engines.none()) {
    fmt::print(stderr,
               "tandem route: which engines? Give --engine http://HOST:PORT for each, or "
               "--registry URL\n");
    return kExitUsage;
  }
  set_up_log(settings.log);
  const Result<int> status = route(settings);
  return status ? *status : report_serving_failure(kRouteInfo, status.status());
}

}  // namespace tandem
