// The fields of an engine's report, one line each; the report's writer and reader are both built
// from them. A visitor has a function for each kind of field, which takes the member's name, a
// reference to its value, and the reader's requirements:
//
//   text, flag, word    Need::older_lack: reports of older engines do not have it
//   count               the maximum and the minimum
//   number              likewise; the reader accepts its absence
//   time_left           likewise; below zero stands for null
//   group               an object, whose fields the given function visits
#pragma once

#include <array>
#include <cstdint>

#include "scheduler/cluster/policies/rank_tally.h"
#include "scheduler/cluster/view/engine_view.h"

namespace tandem {

enum class Need { always, older_lack };

namespace report_bounds {

inline constexpr std::int64_t kRequests = 1'000'000;
inline constexpr std::int64_t kTokens = 1'000'000'000'000;
inline constexpr std::int64_t kRank = RankTally::kMaxRank;
inline constexpr std::int64_t kBytes = std::int64_t{1} << 50;
inline constexpr std::int64_t kWorkers = 65536;
inline constexpr double kSeconds = 1e6;
inline constexpr double kSpeed = 1e15;  // bytes a second

}  // namespace report_bounds

// Indexed by the enumerators' values.
inline constexpr std::array kTierWords = {"absent", "fetching", "host", "loading", "resident"};
inline constexpr std::array kKernelWords = {"bgmv", "mbgmv"};

template <typename Costs, typename Visitor>
void each_cost_field(Costs& costs, Visitor& v) {
  using namespace report_bounds;
  v.word("kernel", costs.kernel, kKernelWords, Need::older_lack);
  v.number("step_s", costs.step_s, kSeconds);
  v.number("request_s", costs.request_s, kSeconds);
  v.number("rank_s", costs.rank_s, kSeconds);
  v.number("context_token_s", costs.context_token_s, kSeconds);
  v.number("prefill_token_s", costs.prefill_token_s, kSeconds);
  v.number("prefill_rank_token_s", costs.prefill_rank_token_s, kSeconds);
}

template <typename Costs, typename Visitor>
void each_cold_field(Costs& cold, Visitor& v) {
  using namespace report_bounds;
  v.number("link_bytes_per_s", cold.link_bytes_per_s, kSpeed, 1);
  v.number("load_s", cold.load_s, kSeconds);
  v.number("fetch_bytes_per_s", cold.fetch_bytes_per_s, kSpeed, 1);
  v.number("fetch_s", cold.fetch_s, kSeconds);
  v.flag("cpu_assist", cold.cpu_assist, Need::older_lack);
  v.number("cpu_step_s", cold.cpu_step_s, kSeconds);
  v.number("cpu_rank_token_s", cold.cpu_rank_token_s, kSeconds);
}

// All fields except the adapters.
template <typename Report, typename Visitor>
void each_report_field(Report& report, Visitor& v) {
  using namespace report_bounds;
  auto& view = report.view;
  v.group("engine", Need::always, [&](Visitor& engine) {
    engine.text("id", report.id);
    engine.text("version", report.version, Need::older_lack);
    engine.text("model", report.model);
    engine.text("base", report.base, Need::older_lack);
    engine.count("max_model_len", report.max_model_len, kTokens);
  });
  v.flag("accepts", view.accepts);
  v.flag("draining", report.draining);
  v.flag("mixed_steps", view.mixed_steps);
  v.flag("prefix_cache", view.prefix_cache, Need::older_lack);
  v.group("running", Need::always, [&](Visitor& running) {
    running.count("requests", view.running.requests, kRequests);
    running.count("rank_sum", view.running.rank_sum, kRequests * kRank);
    running.count("rank_max", view.running.rank_max, kRank);
    running.count("context_tokens", view.running.context_tokens, kTokens);
  });
  v.group("waiting", Need::always, [&](Visitor& waiting) {
    waiting.count("requests", view.waiting.requests, kRequests);
    waiting.count("tokens", view.waiting.tokens, kTokens);
    waiting.count("rank_tokens", view.waiting.rank_tokens, kTokens * kRank);
    waiting.count("rank_max", view.waiting.rank_max, kRank);
    waiting.count("rank_sum", view.waiting_rank_sum, kRequests * kRank);
  });
  v.count("max_requests", view.max_requests, kRequests, 1);
  v.count("kv_tokens", view.kv_tokens, kTokens);
  v.count("kv_free_tokens", view.kv_free_tokens, kTokens, -kTokens);
  v.count("adapter_free_bytes", view.adapter_free_bytes, kBytes);
  v.count("link_queue_bytes", view.link_queue_bytes, kBytes);
  v.count("fetch_queue_bytes", view.fetch_queue_bytes, kBytes);
  v.count("free_workers", view.free_workers, kWorkers);
  v.time_left("step_ends_in_s", view.step_ends_s, kSeconds);
  v.group("costs", Need::older_lack, [&](Visitor& costs) { each_cost_field(view.costs, costs); });
  v.group("cold", Need::older_lack, [&](Visitor& cold) { each_cold_field(view.cold, cold); });
}

template <typename Adapter, typename Visitor>
void each_adapter_field(Adapter& adapter, Visitor& v) {
  using namespace report_bounds;
  v.text("name", adapter.name);
  v.text("digest", adapter.digest, Need::older_lack);
  v.count("rank", adapter.rank, kRank);
  v.count("bytes", adapter.bytes, kBytes);
  v.word("tier", adapter.tier, kTierWords);
  v.count("active", adapter.active, kRequests);
  v.flag("pinned", adapter.pinned, Need::older_lack);
}

}  // namespace tandem
