#include "tools/pick/pick_settings.h"

#include "tools/cli/cluster_settings.h"

namespace tandem {

void add_pick_settings(SettingsTable& table, PickSettings& s) {
  PickerOptions& picker = s.picker;
  add_cluster_settings(table, s.engines, picker.policy, picker.policy_options, "pickers");
  table
      .add(picker.limits.max_waiting, "max_waiting",
           "an engine with this many waiting requests gets no new ones; if all have, the answer is "
           "429")
      .range(1, 1000000);
  table
      .add(picker.limits.max_fallbacks, "max_fallbacks",
           "further engines that Envoy is told, to retry on")
      .range(0, 100);
  table
      .add(picker.watch.heartbeat, "heartbeat_timeout_s",
           "an engine that sends no statistics for this long gets no requests")
      .range(0.6, 3600);
  table.group("Server");
  table.add(s.host, "host", "address where Envoy calls; 0.0.0.0: all addresses of this machine")
      .meta("ADDR");
  table.add(s.port, "port", "port where Envoy calls (gRPC); 0: a free one, which the log names")
      .range(0, 65535);
  table.add(s.metrics_host, "metrics_host", "address of /metrics, /ready and /v1/stats (HTTP)")
      .meta("ADDR");
  table
      .add(s.metrics_port, "metrics_port",
           "port of /metrics, /ready and /v1/stats; 0: a free one, which the log names")
      .range(0, 65535);
  table
      .add(picker.api_key, "api_key",
           "key of the engines, which the picker needs for their statistics and asks for on "
           "/metrics and /v1/stats; clients send theirs through Envoy. Process lists show the flag "
           "but not the variable")
      .meta("KEY")
      .secret();
  table.add(s.metrics_without_key, "metrics_without_key", "/metrics needs no key");
  table
      .add(in_mb(picker.max_body_bytes), "max_body_mb", "longest request body; longer ones get 413")
      .range(0.001, 1024);
  add_log_settings(table, s.log);
}

}  // namespace tandem
