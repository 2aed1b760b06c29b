#include "tools/route/route_settings.h"

#include "base/clock.h"
#include "scheduler/policies/policy.h"

namespace tandem {

void add_route_settings(SettingsTable& table, RouteSettings& s) {
  table.group("Engines");
  table.add(s.engine, "engine", "an engine's address, http://HOST:PORT; may be repeated")
      .meta("URL");
  table
      .add(s.registry, "registry",
           "a cluster's registry, sqlite:FILE or etcd://HOST:PORT,...: engines that have a lease "
           "there come and go by themselves; instead of engine, or beside it")
      .meta("URL");
  table.add(s.policy, "policy", "who chooses an engine for a request").choices(policy_names());
  table.add(s.seed, "seed", "of policies that draw or hash: the same for all routers").at_least(0);
  table
      .add(s.slo_decode_ms, "slo_decode_ms",
           "rank_aware avoids engines where a step would take longer; 0: no such limit")
      .meta("MS")
      .range(0, 60000);
  table.group("Consolidation");
  table.add(s.consolidate, "consolidate",
            "move streams from lightly loaded engines to others that have room, so that engines "
            "become free");
  table
      .add(s.consolidate_after_s, "consolidate_after_s",
           "when the load has fitted on fewer engines for so long; also the least time between two "
           "that are freed")
      .meta("SECONDS")
      .range(0.02, 86400);
  table
      .add(s.consolidate_again_s, "consolidate_again_s",
           "a stream that was moved stays where it is for so long")
      .meta("SECONDS")
      .range(0, 86400);
  table
      .add(s.consolidate_pause_ms, "consolidate_pause_ms",
           "an engine with a stream that is expected to say nothing for longer while it moves, its "
           "adapter's cold start counted, is left as it is")
      .meta("MS")
      .range(0, 600000);
  table.group("Server");
  table.add(s.host, "host", "address to listen on; 0.0.0.0: all of this machine's").meta("ADDR");
  table.add(s.port, "port", "port to listen on; 0: any free one, told in the log").range(0, 65535);
  table
      .add(s.api_key, "api_key",
           "clients must send it as bearer token, and the router sends it to the engines; the "
           "variable keeps it out of process lists")
      .meta("KEY")
      .secret();
  table.add(s.metrics_without_key, "metrics_without_key",
            "with an api_key: /metrics is told to everybody, as /health and /ready are");
  table
      .add(
          s.cors_origins, "cors_origins",
          "pages of this origin (https://chat.example.org; *: all) may call from a browser; may be "
          "repeated")
      .meta("ORIGIN");
  table.add(s.max_connections, "max_connections", "connections at once; more are told 503")
      .range(1, 65536);
  table.add(s.request_log, "request_log", "a line in the log for each request that ended");
  table.add(s.max_body_mb, "max_body_mb", "longest request body; longer ones are told 413")
      .meta("MB")
      .range(0.001, 1024);
  table
      .add(s.keep_alive_s, "keep_alive_s",
           "a connection without a request is closed after this; above the idle time of a load "
           "balancer in front")
      .meta("SECONDS")
      .range(1, 86400);
  table
      .add(s.drain_timeout_s, "drain_timeout_s",
           "after SIGTERM, wait this long for running requests to end")
      .meta("SECONDS")
      .range(0, 86400);
  table.group("Patience");
  table.add(s.max_queue, "max_queue", "requests that may wait for an engine; more are told 429")
      .range(0, 1000000);
  table.add(s.queue_timeout_s, "queue_timeout_s", "a request that waited longer is told 429")
      .meta("SECONDS")
      .range(0.001, 86400);
  table
      .add(s.first_byte_timeout_s, "first_byte_timeout_s",
           "a stream that has not begun by then is asked of another engine")
      .meta("SECONDS")
      .range(0.001, 86400);
  table
      .add(s.stall_timeout_s, "stall_timeout_s",
           "a stream that says nothing for longer goes on at another engine")
      .meta("SECONDS")
      .range(0.001, 86400);
  table
      .add(s.answer_timeout_s, "answer_timeout_s",
           "an answer that is no stream and not there by then is asked of another engine")
      .meta("SECONDS")
      .range(0.001, 86400);
  table
      .add(s.heartbeat_timeout_s, "heartbeat_timeout_s",
           "an engine whose statistics are silent for longer is set aside, its requests moved")
      .meta("SECONDS")
      .range(0.6, 3600);
  table
      .add(s.recover_timeout_s, "recover_timeout_s",
           "how long a request that an engine failed waits for another")
      .meta("SECONDS")
      .range(0, 86400);
  table
      .add(s.max_attempts, "max_attempts",
           "engines that a request is asked of, one after the other, without a token's progress")
      .range(1, 100);
  add_log_settings(table, s.log);
  add_trace_settings(table, s.tracing);
}

RouterServerOptions router_options(const RouteSettings& s) {
  RouterServerOptions options;
  options.host = s.host;
  options.port = static_cast<int>(s.port);
  options.api_key = s.api_key;
  options.metrics_without_key = s.metrics_without_key;
  options.cors_origins = s.cors_origins;
  options.max_body_bytes = static_cast<std::size_t>(s.max_body_mb * 1024 * 1024);
  options.max_connections = static_cast<int>(s.max_connections);
  options.keep_alive = duration_of(s.keep_alive_s);
  options.router.request_log = s.request_log;
  options.router.policy = s.policy;
  options.router.policy_options.seed = static_cast<std::uint64_t>(s.seed);
  options.router.policy_options.slo_decode_s = s.slo_decode_ms / 1e3;
  ConsolidationOptions& consolidation = options.router.consolidation;
  consolidation.on = s.consolidate;
  consolidation.after = duration_of(s.consolidate_after_s);
  consolidation.again = duration_of(s.consolidate_again_s);
  consolidation.max_pause_s = s.consolidate_pause_ms / 1e3;
  RouteLimits& limits = options.router.limits;
  limits.max_queue = static_cast<std::size_t>(s.max_queue);
  limits.queue_timeout = duration_of(s.queue_timeout_s);
  limits.first_byte_timeout = duration_of(s.first_byte_timeout_s);
  limits.stall_timeout = duration_of(s.stall_timeout_s);
  limits.answer_timeout = duration_of(s.answer_timeout_s);
  limits.recover_timeout = duration_of(s.recover_timeout_s);
  limits.max_attempts = static_cast<std::int32_t>(s.max_attempts);
  options.router.watch.heartbeat = duration_of(s.heartbeat_timeout_s);
  return options;
}

NamedEngines named_engines(const RouteSettings& settings) {
  return {.urls = settings.engine, .registry = settings.registry};
}

}  // namespace tandem
