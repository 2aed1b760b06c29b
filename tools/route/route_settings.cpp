#include "tools/route/route_settings.h"

#include "base/clock.h"
#include "scheduler/policies/policy.h"

namespace tandem {

void add_route_settings(SettingsTable& table, RouteSettings& s) {
  table.group("Engines");
  table.add(s.engine, "engine", "address of an engine, as in http://HOST:PORT; may be repeated")
      .meta("URL");
  table
      .add(s.registry, "registry",
           "registry of a cluster, sqlite:FILE or etcd://HOST:PORT,...: its engines are used as "
           "they come and go; may be given with engine")
      .meta("URL");
  table.add(s.policy, "policy", "rule that chooses an engine for each request")
      .choices(policy_names());
  table
      .add(s.seed, "seed",
           "seed of policies that draw or hash; give it the same value on all routers")
      .at_least(0);
  table
      .add(s.slo_decode_ms, "slo_decode_ms",
           "rank_aware avoids engines where a decode step would take longer; 0: no limit")
      .meta("MS")
      .range(0, 60000);
  table.group("Consolidation");
  table.add(s.consolidate, "consolidate",
            "move streams from lightly loaded engines to others that have room, so that engines "
            "become idle");
  table
      .add(s.consolidate_after_s, "consolidate_after_s",
           "an engine is freed once the load has fitted on fewer engines for this long, and at "
           "most one in this time")
      .meta("SECONDS")
      .range(0.02, 86400)
      .expert();
  table
      .add(s.consolidate_again_s, "consolidate_again_s",
           "a stream that was moved stays where it is for this long")
      .meta("SECONDS")
      .range(0, 86400)
      .expert();
  table
      .add(s.consolidate_pause_ms, "consolidate_pause_ms",
           "an engine is not freed if moving one of its streams is expected to pause it for longer")
      .meta("MS")
      .range(0, 600000)
      .expert();
  table.group("Server");
  table.add(s.host, "host", "address to listen on; 0.0.0.0: all addresses of this machine")
      .meta("ADDR");
  table.add(s.port, "port", "port to listen on; 0: a free one, which the log names")
      .range(0, 65535);
  table
      .add(s.api_key, "api_key",
           "key that clients must send as a bearer token, and that the router sends to the "
           "engines; process lists show the flag but not the variable")
      .meta("KEY")
      .secret();
  table.add(s.metrics_without_key, "metrics_without_key",
            "/metrics needs no key, like /health and /ready");
  table
      .add(s.cors_origins, "cors_origins",
           "origin of web pages that may call the server from a browser, as in "
           "https://chat.example.org; *: all; may be repeated")
      .meta("ORIGIN");
  table.add(s.max_connections, "max_connections", "connections at once; further ones get 503")
      .range(1, 65536);
  table.add(s.request_log, "request_log", "log a line for each request that has ended");
  table.add(s.max_body_mb, "max_body_mb", "longest request body; longer ones get 413")
      .meta("MB")
      .range(0.001, 1024);
  table
      .add(s.keep_alive_s, "keep_alive_s",
           "a connection without a request is closed after this time; set it longer than the idle "
           "timeout of a load balancer in front")
      .meta("SECONDS")
      .range(1, 86400);
  table
      .add(s.drain_timeout_s, "drain_timeout_s",
           "after SIGTERM, running requests have this long to end")
      .meta("SECONDS")
      .range(0, 86400);
  table.group("Patience");
  table.add(s.max_queue, "max_queue", "requests that may wait for an engine; further ones get 429")
      .range(0, 1000000);
  table
      .add(s.queue_timeout_s, "queue_timeout_s",
           "a request that has waited this long for an engine gets 429")
      .meta("SECONDS")
      .range(0.001, 86400);
  table
      .add(s.first_byte_timeout_s, "first_byte_timeout_s",
           "a stream that has not begun after this time is started on another engine")
      .meta("SECONDS")
      .range(0.001, 86400);
  table
      .add(s.stall_timeout_s, "stall_timeout_s",
           "a stream that has been silent for this long continues on another engine")
      .meta("SECONDS")
      .range(0.001, 86400);
  table
      .add(
          s.answer_timeout_s, "answer_timeout_s",
          "a request without a stream that has no answer after this time is sent to another engine")
      .meta("SECONDS")
      .range(0.001, 86400);
  table
      .add(s.heartbeat_timeout_s, "heartbeat_timeout_s",
           "an engine that sends no statistics for this long gets no requests, and its running "
           "ones move to others")
      .meta("SECONDS")
      .range(0.6, 3600);
  table
      .add(s.recover_timeout_s, "recover_timeout_s",
           "a request whose engine failed waits this long for another one")
      .meta("SECONDS")
      .range(0, 86400);
  table
      .add(s.max_attempts, "max_attempts",
           "engines that are tried for one request, one after the other, without a new token")
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
