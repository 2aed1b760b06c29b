#include "tools/route/route_settings.h"

#include "tools/cli/cluster_settings.h"

namespace tandem {

void add_route_settings(SettingsTable& table, RouteSettings& s) {
  RouterServerOptions& server = s.server;
  ConsolidationOptions& consolidation = server.router.consolidation;
  RouteLimits& limits = server.router.limits;
  add_cluster_settings(table, s.engines, server.router.policy, server.router.policy_options,
                       "routers");
  table.group("Consolidation");
  table.add(consolidation.on, "consolidate",
            "move streams from lightly loaded engines to others that have room, so that engines "
            "become idle");
  table
      .add(consolidation.after, "consolidate_after_s",
           "an engine is freed once the load has fitted on fewer engines for this long, and at "
           "most one in this time")
      .range(0.02, 86400)
      .expert();
  table
      .add(consolidation.again, "consolidate_again_s",
           "a stream that was moved stays where it is for this long")
      .range(0, 86400)
      .expert();
  table
      .add(in_ms(consolidation.max_pause_s), "consolidate_pause_ms",
           "an engine is not freed if moving one of its streams is expected to pause it for longer")
      .range(0, 600000)
      .expert();
  table.group("Server");
  table.add(server.host, "host", "address to listen on; 0.0.0.0: all addresses of this machine")
      .meta("ADDR");
  table.add(server.port, "port", "port to listen on; 0: a free one, which the log names")
      .range(0, 65535);
  table
      .add(server.api_key, "api_key",
           "key that clients must send as a bearer token, and that the router sends to the "
           "engines; process lists show the flag but not the variable")
      .meta("KEY")
      .secret();
  table.add(server.metrics_without_key, "metrics_without_key",
            "/metrics needs no key, like /health and /ready");
  table
      .add(server.cors_origins, "cors_origins",
           "origin of web pages that may call the server from a browser, as in "
           "https://chat.example.org; *: all; may be repeated")
      .meta("ORIGIN");
  table.add(server.max_connections, "max_connections", "connections at once; further ones get 503")
      .range(1, 65536);
  table.add(server.router.request_log, "request_log", "log a line for each request that has ended");
  table
      .add(in_mb(server.max_body_bytes), "max_body_mb", "longest request body; longer ones get 413")
      .range(0.001, 1024);
  table
      .add(server.keep_alive, "keep_alive_s",
           "a connection without a request is closed after this time; set it longer than the idle "
           "timeout of a load balancer in front")
      .range(1, 86400);
  table
      .add(s.drain_timeout_s, "drain_timeout_s",
           "after SIGTERM, running requests have this long to end")
      .meta("SECONDS")
      .range(0, 86400);
  table.group("Patience");
  table
      .add(limits.max_queue, "max_queue",
           "requests that may wait for an engine; further ones get 429")
      .range(0, 1000000);
  table
      .add(limits.queue_timeout, "queue_timeout_s",
           "a request that has waited this long for an engine gets 429")
      .range(0.001, 86400);
  table
      .add(limits.first_byte_timeout, "first_byte_timeout_s",
           "a stream that has not begun after this time is started on another engine")
      .range(0.001, 86400);
  table
      .add(limits.stall_timeout, "stall_timeout_s",
           "a stream that has been silent for this long continues on another engine")
      .range(0.001, 86400);
  table
      .add(
          limits.answer_timeout, "answer_timeout_s",
          "a request without a stream that has no answer after this time is sent to another engine")
      .range(0.001, 86400);
  table
      .add(server.router.watch.heartbeat, "heartbeat_timeout_s",
           "an engine that sends no statistics for this long gets no requests, and its running "
           "ones move to others")
      .range(0.6, 3600);
  table
      .add(limits.recover_timeout, "recover_timeout_s",
           "a request whose engine failed waits this long for another one")
      .range(0, 86400);
  table
      .add(limits.max_attempts, "max_attempts",
           "engines that are tried for one request, one after the other, without a new token")
      .range(1, 100);
  add_log_settings(table, s.log);
  add_trace_settings(table, s.tracing);
}

}  // namespace tandem
