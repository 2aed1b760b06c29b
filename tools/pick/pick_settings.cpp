#include "tools/pick/pick_settings.h"

#include "base/clock.h"
#include "scheduler/policies/policy.h"

namespace tandem {

void add_pick_settings(SettingsTable& table, PickSettings& s) {
  table.group("Engines");
  table.add(s.engine, "engine", "an engine's address, http://HOST:PORT; may be repeated")
      .meta("URL");
  table
      .add(s.registry, "registry",
           "a cluster's registry, sqlite:FILE or etcd://HOST:PORT,...: engines that have a lease "
           "there come and go by themselves; instead of engine, or beside it")
      .meta("URL");
  table.add(s.policy, "policy", "who chooses an engine for a request").choices(policy_names());
  table.add(s.seed, "seed", "of policies that draw or hash: the same for all pickers").at_least(0);
  table
      .add(s.slo_decode_ms, "slo_decode_ms",
           "rank_aware avoids engines where a step would take longer; 0: no such limit")
      .meta("MS")
      .range(0, 60000);
  table
      .add(s.max_waiting, "max_waiting",
           "an engine where so many requests wait gets nothing new; with all of them so, 429")
      .range(1, 1000000);
  table
      .add(s.max_fallbacks, "max_fallbacks",
           "engines that Envoy is told of behind the first, to retry at")
      .range(0, 100);
  table
      .add(s.heartbeat_timeout_s, "heartbeat_timeout_s",
           "an engine whose statistics are silent for longer is set aside")
      .meta("SECONDS")
      .range(0.6, 3600);
  table.group("Server");
  table.add(s.host, "host", "address where Envoy calls; 0.0.0.0: all of this machine's")
      .meta("ADDR");
  table.add(s.port, "port", "port where Envoy calls (gRPC); 0: any free one, told in the log")
      .range(0, 65535);
  table.add(s.metrics_host, "metrics_host", "address of /metrics, /ready and /v1/stats (HTTP)")
      .meta("ADDR");
  table.add(s.metrics_port, "metrics_port", "their port; 0: any free one, told in the log")
      .range(0, 65535);
  table
      .add(s.api_key, "api_key",
           "the engines' key, for their statistics, and what /metrics and /v1/stats here ask for; "
           "clients send theirs through Envoy. The variable keeps it out of process lists")
      .meta("KEY")
      .secret();
  table.add(s.metrics_without_key, "metrics_without_key",
            "/metrics is told to everybody, whatever api_key says");
  table.add(s.max_body_mb, "max_body_mb", "longest request body; longer ones are told 413")
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
