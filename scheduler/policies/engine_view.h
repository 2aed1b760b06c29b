// What a scheduler of many engines knows when a request comes: plain values, which the router fills
// from what engines push, and the simulator from its engines.
#pragma once

#include <cstdint>
#include <span>

#include "base/strong_id.h"
#include "scheduler/costs/cold_start_costs.h"
#include "scheduler/costs/step_costs.h"

namespace tandem {

// An engine's place in the list of views; also what a Decision names.
using EngineIndex = StrongId<struct EngineIndexTag>;
// An adapter of the cluster, whichever engines have it.
using ClusterAdapterId = StrongId<struct ClusterAdapterIdTag>;

// Sums are kept up to date by whoever fills them, so that a decision reads one view per engine and
// walks no list.
struct EngineView {
  bool accepts = true;       // alive, not draining
  bool mixed_steps = true;   // prompts and decode in one step; else prompts have their own
  bool prefix_cache = true;  // what prompts begin with is kept, as long as there is room for it
  StepCosts costs;           // of this engine: the profile, corrected by what it reports
  ColdStartCosts cold;
  DecodeLoad running;
  PrefillLoad waiting;  // prompts not begun
  std::int64_t waiting_rank_sum = 0;
  std::int32_t max_requests = 0;    // that run together
  std::int64_t kv_free_tokens = 0;  // neither used nor promised to what runs or waits; may be < 0
  std::int64_t kv_tokens = 0;       // in all
  std::int64_t adapter_free_bytes = 0;  // of the device tier: free, or of adapters nobody uses
  std::int64_t link_queue_bytes = 0;    // adapters under way to the device
  std::int64_t fetch_queue_bytes = 0;   // and into the host tier
  double step_ends_s = -1;              // the step under way, expected, by the clock of
                                        // RouteRequest::now_s; below zero: not known
  std::int32_t free_workers = 0;

  std::int64_t requests() const { return running.requests + waiting.requests; }
  // All that runs or waits, as if it decoded: the paper's `exists`.
  DecodeLoad all() const {
    DecodeLoad load = running;
    load.requests += waiting.requests;
    load.rank_sum += waiting_rank_sum;
    load.rank_max = std::max(load.rank_max, waiting.rank_max);
    load.context_tokens += waiting.tokens;
    return load;
  }
};

// Where an adapter is on an engine, best last: nowhere, on its way into host memory, there, on its
// way to the device, there.
enum class AdapterTier { absent, fetching, host, loading, resident };

// One engine that has an adapter in some way.
struct AdapterHold {
  EngineIndex engine;
  AdapterTier tier = AdapterTier::absent;
  std::int32_t active_requests = 0;  // that run or wait there with this adapter
};

// An engine whose prefix cache has the first tokens of the prompt, as is believed.
struct PrefixHit {
  EngineIndex engine;
  std::int64_t tokens = 0;
};

struct RouteRequest {
  double now_s = 0;          // of any clock that EngineView::step_ends_s shares
  ClusterAdapterId adapter;  // not valid: the base model
  std::int32_t rank = 0;     // 0: the base model
  std::int64_t adapter_bytes = 0;
  std::int64_t prompt_tokens = 0;
  double expected_tokens = 0;  // of the answer
  double slo_ttft_s = 0;       // 0: none
  double slo_token_s = 0;      // time per token: latency over tokens. 0: none
  // At most one entry for an engine in each; engines without one hold nothing. Outlive the call.
  std::span<const AdapterHold> holds;
  std::span<const PrefixHit> prefixes;  // by engine

  PrefillLoad prefill() const {
    return {.requests = 1,
            .tokens = prompt_tokens,
            .rank_tokens = prompt_tokens * rank,
            .rank_max = rank};
  }
  DecodeLoad decode() const {
    return {.requests = 1, .rank_sum = rank, .rank_max = rank, .context_tokens = prompt_tokens};
  }
  // KV that it will take in the end, as far as one knows.
  std::int64_t kv_tokens() const {
    return prompt_tokens + static_cast<std::int64_t>(expected_tokens);
  }
};

// There is a place in the engine's batch and KV for it.
inline bool has_room(const EngineView& engine, const RouteRequest& request) {
  return engine.accepts && engine.requests() < engine.max_requests &&
         engine.kv_free_tokens >= request.kv_tokens();
}

}  // namespace tandem
