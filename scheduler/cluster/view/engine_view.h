// The input of a scheduling decision over many engines: plain values, which the router fills from
// the engines' reports and the simulator from its engines.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids/strong_id.h"
#include "scheduler/planning/costs/cold_start_costs.h"
#include "scheduler/planning/costs/step_costs.h"

namespace tandem {

// An engine's position in the list of views; a Decision refers to it.
using EngineIndex = StrongId<struct EngineIndexTag>;
// An adapter of the cluster, on any number of engines.
using ClusterAdapterId = StrongId<struct ClusterAdapterIdTag>;

// The caller keeps the sums up to date, so that a decision reads one view per engine and iterates
// over no list.
struct EngineView {
  bool accepts = true;       // alive, not draining
  bool mixed_steps = true;   // prompts and decode share a step; else prompts have their own steps
  bool prefix_cache = true;  // the prefixes of prompts are kept as long as there is room
  StepCosts costs;           // the engine's profile, corrected by its reports
  ColdStartCosts cold;
  DecodeLoad running;
  PrefillLoad waiting;  // prompts that have not begun
  std::int64_t waiting_rank_sum = 0;
  std::int32_t max_requests = 0;  // maximum that run together
  // Neither used nor reserved for running or waiting requests; may be < 0.
  std::int64_t kv_free_tokens = 0;
  std::int64_t kv_tokens = 0;  // in all
  // Bytes of the device tier that are free or used by adapters without requests.
  std::int64_t adapter_free_bytes = 0;
  std::int64_t link_queue_bytes = 0;   // adapters being loaded to the device
  std::int64_t fetch_queue_bytes = 0;  // adapters being fetched into the host tier
  // Predicted end of the current step, on the clock of RouteRequest::now_s; below zero: not known.
  double step_ends_s = -1;
  std::int32_t free_workers = 0;

  std::int64_t requests() const { return running.requests + waiting.requests; }
  // The load if all running and waiting requests decoded: `exists` in the paper.
  DecodeLoad all() const {
    DecodeLoad load = running;
    load.requests += waiting.requests;
    load.rank_sum += waiting_rank_sum;
    load.rank_max = std::max(load.rank_max, waiting.rank_max);
    load.context_tokens += waiting.tokens;
    return load;
  }
};

// The state of an adapter on an engine, best last: absent, being fetched into host memory, in host
// memory, being loaded to the device, on the device.
enum class AdapterTier { absent, fetching, host, loading, resident };

// An engine that has an adapter in any tier.
struct AdapterHold {
  EngineIndex engine;
  AdapterTier tier = AdapterTier::absent;
  std::int32_t active_requests = 0;  // running or waiting there with this adapter
};

// An engine whose prefix cache probably has the first tokens of the prompt.
struct PrefixHit {
  EngineIndex engine;
  std::int64_t tokens = 0;
};

struct RouteRequest {
  double now_s = 0;          // on the same clock as EngineView::step_ends_s
  ClusterAdapterId adapter;  // invalid: the base model
  std::int32_t rank = 0;     // 0: the base model
  std::int64_t adapter_bytes = 0;
  std::int64_t prompt_tokens = 0;
  double expected_tokens = 0;  // predicted length of the answer
  double slo_ttft_s = 0;       // 0: none
  double slo_token_s = 0;      // limit of latency / tokens; 0: none
  // At most one entry per engine in each; an engine without an entry has neither. They outlive the
  // call.
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
  // Its adapter on an engine: absent where no entry says otherwise. The base model is resident.
  AdapterHold hold_on(EngineIndex engine) const {
    for (const AdapterHold& hold : holds) {
      if (hold.engine == engine) return hold;
    }
    return {engine, adapter.valid() ? AdapterTier::absent : AdapterTier::resident};
  }
  // The predicted KV size at the end of the answer.
  std::int64_t kv_tokens() const {
    return prompt_tokens + static_cast<std::int64_t>(expected_tokens);
  }
};

// Whether the engine's batch and KV have room for the request.
inline bool has_room(const EngineView& engine, const RouteRequest& request) {
  return engine.accepts && engine.requests() < engine.max_requests &&
         engine.kv_free_tokens >= request.kv_tokens();
}

}  // namespace tandem
