// The table of the figures in EngineStats. /metrics, the JSON of /v1/adapters with its description
// in /openapi.json, and the dashboard's JSON are generated from it. A new figure is a member of
// EngineStats and a row here.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/service/service.h"

namespace tandem {

struct Figure {
  std::string series;  // in /metrics, with its labels; empty: none. Counters end in "_total"
  const char* help;    // of the metric
  std::vector<std::string_view> places;  // in JSON: "handoff.NAME" of /v1/adapters; "pool.NAME" and
                                         // "counts.NAME" of the dashboard
  const char* described;                 // in /openapi.json, for handoff figures but counts
};

// A figure that is a histogram.
template <std::size_t N>
struct Distribution {
  const std::array<double, N>& bounds;
  const CountedValues<N>& values;
};
template <std::size_t N>
Distribution(const std::array<double, N>&, const CountedValues<N>&) -> Distribution<N>;

// Calls `visit(figure, value)` for every row, in the order of /metrics; the series of one metric
// follow one another. The value is a number, a bool or a Distribution.
template <typename Visit>
void each_figure(const EngineStats& s, const Visit& visit) {
  using Places = std::vector<std::string_view>;
  const auto row = [&](const auto& value, std::string series, const char* help = "",
                       Places places = {}, const char* described = nullptr) {
    visit(Figure{std::move(series), help, std::move(places), described}, value);
  };
  constexpr const char* kAborted =
      "Sequences given up before they began, by whether the first token's deadline had passed or "
      "was out of reach";
  constexpr const char* kPages = "Pages of the device's pool";
  constexpr const char* kLayers =
      "Layers of adapters that were offered to workers, by who computed them";
  constexpr const char* kColdTime =
      "Time of steps with rows that were handed over, as planned and as it was";
  constexpr const char* kColdSeconds = "Seconds, of steps with rows that were handed over";
  constexpr const char* kEnqueued =
      "Iterations by when they were planned: at once, just in time, or too late";
  const double kv_used = static_cast<double>(s.pages_kv) /
                         static_cast<double>(std::max<std::int64_t>(1, s.pages_total));

  row(s.running, "vllm:num_requests_running", "Sequences being generated");
  row(s.waiting, "vllm:num_requests_waiting", "Sequences waiting to be scheduled");
  row(kv_used, "vllm:kv_cache_usage_perc", "Pages that hold KV, 1 is all");
  row(kv_used, "vllm:gpu_cache_usage_perc", "The older name of kv_cache_usage_perc");
  row(s.prompt_tokens, "vllm:prompt_tokens_total", "Prompt tokens computed",
      {"counts.prompt_tokens"});
  row(s.generation_tokens, "vllm:generation_tokens_total", "Tokens generated",
      {"counts.generation_tokens"});
  row(Distribution{kInterTokenBounds, s.inter_token}, "vllm:inter_token_latency_seconds",
      "Between two tokens of a sequence");
  row(Distribution{kStepTokensBounds, s.step_tokens}, "vllm:iteration_tokens_total",
      "Tokens that an iteration computed");
  row(s.preemptions, "vllm:num_preemptions_total", "Sequences set back for want of pages",
      {"counts.preemptions"});
  row(s.aborts_expired, R"(tandem_early_aborts_total{reason="expired"})", kAborted);
  row(s.aborts_unreachable, R"(tandem_early_aborts_total{reason="unreachable"})", kAborted);
  row(s.overloaded, "tandem_queue_overloaded", "1: more requests come than are admitted");
  row(s.tenants, "tandem_queue_tenants",
      "Tenants with requests that wait or run, where they are served fairly");
  row(s.longest_prefill_s, "tandem_queue_longest_prefill_seconds",
      "Of the last seconds, from a request's first step to its first token");
  row(s.prefix_queries, "vllm:prefix_cache_queries_total", "Prompt tokens looked for in the cache");
  row(s.prefix_hits, "vllm:prefix_cache_hits_total", "Prompt tokens found in the cache");
  row(1,
      fmt::format(R"(vllm:cache_config_info{{block_size="{}",num_gpu_blocks="{}"}})", s.page_tokens,
                  s.pages_total),
      "What the cache is: the labels; the value is 1");
  row(s.page_tokens, "", "", {"pool.page_tokens"});
  row(s.pages_total, "", "", {"pool.pages"});
  row(s.pages_free, R"(tandem_pages{state="free"})", kPages, {"pool.free"});
  row(s.pages_kv, R"(tandem_pages{state="kv"})", kPages, {"pool.kv"});
  row(s.pages_cached, R"(tandem_pages{state="prefix_cache"})", kPages, {"pool.cached"});
  row(s.pages_adapter, R"(tandem_pages{state="adapters"})", kPages, {"pool.adapters"});
  row(s.host_tier_bytes, "tandem_host_tier_bytes", "Shared memory for adapters, in all",
      {"pool.host_bytes"});
  row(s.host_tier_used, "tandem_host_tier_used_bytes", "Of it, what adapters take",
      {"pool.host_used"});
  row(s.adapter_loads, "tandem_adapter_loads_total", "Adapters copied to the device",
      {"counts.loads"});
  row(s.adapter_loaded_bytes, "tandem_adapter_loaded_bytes_total", "Bytes of these copies");
  row(Distribution{kAdapterLoadBounds, s.adapter_load}, "vllm:lora_adapter_load_seconds",
      "From when an adapter was ordered onto the device until it was there");
  row(s.adapter_evictions, "tandem_adapter_evictions_total", "Adapters that left the device",
      {"counts.evictions"});
  row(s.adapter_early_arrivals, "tandem_adapter_early_arrivals_total",
      "Adapters that could be used before all of them had come from another engine");
  row(s.cpu_workers, "tandem_cpu_workers", "CPU workers that are up", {"handoff.cpu_workers"});
  row(s.worker_restarts, "tandem_cpu_worker_restarts_total", "CPU workers that were started again",
      {"handoff.restarts", "counts.restarts"});
  row(s.worker_busy_s, "tandem_cpu_worker_busy_seconds_total", "Time that CPU workers computed");
  row(s.handoff_steps, "", "", {"handoff.steps"});
  row(s.handoff_rows, "tandem_handoff_rows_total", "Rows of steps whose adapter was still loading",
      {"handoff.rows"});
  row(s.handoff_cpu_layers, R"(tandem_handoff_layers_total{by="cpu"})", kLayers,
      {"handoff.cpu_layers", "counts.cpu_layers"});
  row(s.handoff_gpu_layers, R"(tandem_handoff_layers_total{by="device"})", kLayers,
      {"handoff.device_layers", "counts.gpu_layers"});
  row(s.handoff_timed_out, "tandem_handoff_deadline_misses_total",
      "Rows of an adapter in a step that workers left without an answer",
      {"handoff.deadline_misses"});
  row(s.replays, "tandem_handoff_replays_total", "Sequences that were computed again for that",
      {"handoff.replays", "counts.replays"});
  row(s.handoff_planned_seconds, R"(tandem_handoff_step_seconds_total{kind="planned"})", kColdTime,
      {"handoff.planned_seconds"}, kColdSeconds);
  row(s.handoff_actual_seconds, R"(tandem_handoff_step_seconds_total{kind="actual"})", kColdTime,
      {"handoff.actual_seconds"}, kColdSeconds);
  row(s.handoff_plan_error, "tandem_handoff_plan_error_ratio",
      "By how much cold steps missed their plans, the median of the last 64",
      {"handoff.plan_error"}, "Median of the last steps; 0.1: 10 % off");
  row(s.steps, "tandem_steps_total", "Iterations of the engine", {"counts.steps"});
  row(s.step_seconds_total, "tandem_step_seconds_total", "Time spent in iterations",
      {"counts.step_s"});
  row(s.host_seconds_total, "tandem_host_seconds_total",
      "Time the engine thread worked, most of it while the device did, too");
  row(s.gap_seconds_total, "tandem_gap_seconds_total",
      "Time between iterations in which the device waited for the engine thread");
  row(s.steps_at_once, R"(tandem_steps_enqueued_total{when="at_once"})", kEnqueued);
  row(s.steps_in_time, R"(tandem_steps_enqueued_total{when="in_time"})", kEnqueued);
  row(s.steps_late, R"(tandem_steps_enqueued_total{when="late"})", kEnqueued);
  row(s.enqueue_margin_s, "tandem_enqueue_margin_seconds",
      "How long before the expected end of an iteration the next one is planned");
}

// Calls `visit(name, figure, value)` for each number that has a place "SECTION.name".
template <typename Visit>
void each_figure_of(std::string_view section, const EngineStats& stats, const Visit& visit) {
  each_figure(stats, [&](const Figure& figure, const auto& value) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
      for (const std::string_view place : figure.places) {
        const std::size_t dot = place.find('.');
        if (place.substr(0, dot) == section) visit(place.substr(dot + 1), figure, value);
      }
    }
  });
}

}  // namespace tandem
