#include "tools/pick/pick_settings.h"

#include "base/clock.h"
#include "scheduler/policies/policy.h"

namespace tandem {

void add_pick_settings(SettingsTable& table, PickSettings& s) {
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
           "seed of policies that draw or hash; give it the same value on all pickers")
      .at_least(0);
  table
      .add(s.slo_decode_ms, "slo_decode_ms",
           "rank_aware avoids engines where a decode step would take longer; 0: no limit")
      .meta("MS")
      .range(0, 60000);
  table
      .add(s.max_waiting, "max_waiting",
           "an engine with this many waiting requests gets no new ones; if all have, the answer is "
           "429")
      .range(1, 1000000);
  table.add(s.max_fallbacks, "max_fallbacks", "further engines that Envoy is told, to retry on")
      .range(0, 100);
  table
      .add(s.heartbeat_timeout_s, "heartbeat_timeout_s",
           "an engine that sends no statistics for this long gets no requests")
      .meta("SECONDS")
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
      .add(s.api_key, "api_key",
           "key of the engines, which the picker needs for their statistics and asks for on "
           "/metrics and /v1/stats; clients send theirs through Envoy. Process lists show the flag "
           "but not the variable")
      .meta("KEY")
      .secret();
  table.add(s.metrics_without_key, "metrics_without_key", "/metrics needs no key");
  table.add(s.max_body_mb, "max_body_mb", "longest request body; longer ones get 413")
      .meta("MB")
      .range(0.001, 1024);
  add_log_settings(table, s.log);
}

NamedEngines named_engines(const PickSettings& settings) {
  return {.urls = settings.engine, .registry = settings.registry};
}

PickerOptions picker_options(const PickSettings& s) {
  PickerOptions options;
  options.policy = s.policy;
  options.policy_options.seed = static_cast<std::uint64_t>(s.seed);
  options.policy_options.slo_decode_s = s.slo_decode_ms / 1e3;
  options.limits.max_waiting = s.max_waiting;
  options.limits.max_fallbacks = static_cast<std::size_t>(s.max_fallbacks);
  options.watch.heartbeat = duration_of(s.heartbeat_timeout_s);
  options.api_key = s.api_key;
  options.max_body_bytes = static_cast<std::size_t>(s.max_body_mb * 1024 * 1024);
  return options;
}

}  // namespace tandem
