// Engines and requests for the tests of policies.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "scheduler/cluster/policies/policy.h"

namespace tandem {

inline StepCosts a_profile(LoraKernel kernel) {
  return {.kernel = kernel,
          .step_s = 32e-3,
          .rank_s = 3.6e-6,
          .prefill_token_s = 0.2e-3,
          .prefill_rank_token_s = 1e-7};
}

// An idle engine with 32 places.
inline EngineView idle_engine(LoraKernel kernel = LoraKernel::bgmv) {
  EngineView engine;
  engine.costs = a_profile(kernel);
  engine.cold.link_bytes_per_s = 10e9;
  engine.max_requests = 32;
  engine.kv_free_tokens = engine.kv_tokens = 12'000;
  engine.adapter_free_bytes = std::int64_t{3} << 30;
  engine.free_workers = 12;
  return engine;
}

// Returns the engine with `count` running requests of `rank`, with 100 tokens each.
inline EngineView running(EngineView engine, std::int64_t count, std::int32_t rank) {
  engine.running.add({.requests = count,
                      .rank_sum = count * rank,
                      .rank_max = rank,
                      .context_tokens = 100 * count});
  engine.kv_free_tokens -= 100 * count;
  return engine;
}

inline RouteRequest a_request(std::int32_t rank = 64, std::int32_t adapter = 7) {
  RouteRequest request;
  request.adapter = ClusterAdapterId(adapter);
  request.rank = rank;
  request.adapter_bytes = std::int64_t{1'572'864} * rank;
  request.prompt_tokens = 20;
  request.expected_tokens = 58;
  return request;
}

inline EngineIndex engine_at(std::int32_t index) {
  return EngineIndex(index);
}

inline Decision choose_by(std::string_view name, const RouteRequest& request,
                          const std::vector<EngineView>& engines, PolicyOptions options = {}) {
  auto policy = make_policy(name, options);
  TANDEM_CHECK(policy.ok(), "{}", policy.status().message());
  return (*policy)->choose(request, engines);
}

// Makes engines with any load, some of which do not accept, for properties that always hold.
inline std::vector<EngineView> random_engines(std::mt19937_64& random, std::size_t count) {
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  std::vector<EngineView> engines;
  for (std::size_t i = 0; i < count; ++i) {
    EngineView engine = idle_engine(below(2) == 0 ? LoraKernel::bgmv : LoraKernel::mbgmv);
    engine.accepts = below(10) != 0;
    engine = running(engine, below(40), static_cast<std::int32_t>(8 << below(4)));
    for (std::int64_t left = below(4); left > 0; --left) {
      const std::int64_t tokens = 1 + below(200);
      engine.waiting.add(
          {.requests = 1, .tokens = tokens, .rank_tokens = tokens * 16, .rank_max = 16});
      engine.waiting_rank_sum += 16;
    }
    engine.link_queue_bytes = below(1 << 28);
    engine.free_workers = static_cast<std::int32_t>(below(13));
    engines.push_back(engine);
  }
  return engines;
}

}  // namespace tandem
