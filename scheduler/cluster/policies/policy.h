// Policies, which choose the engine of a request; one small class for each. Router, picker and
// simulator share them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/cluster/view/engine_view.h"

namespace tandem {

struct Decision {
  EngineIndex engine;  // invalid: none yet, the request waits before the engines
  double cost = 0;     // the value that the policy minimised, in its own unit; for logs and tests

  bool chosen() const { return engine.valid(); }
};

// The parts of a cost in seconds, weighted; their sum is the cost.
struct CostTerms {
  double wait_s = 0;     // until the request starts
  double cold_s = 0;     // until its adapter has arrived
  double compute_s = 0;  // its prefill
  double decode_s = 0;   // its other tokens
  double others_s = 0;   // time added to running and waiting requests
  double later_s = 0;    // reloading the evicted adapter
  double misses_s = 0;   // missed SLOs

  double sum() const {
    return wait_s + cold_s + compute_s + decode_s + others_s + later_s + misses_s;
  }
};

// A policy's prediction for a request on one engine.
struct CostEstimate {
  double ttft_s = 0;
  double token_s = 0;  // latency / tokens
  double cost_s = 0;   // over all requests
  CostTerms terms;
};

// choose() does no I/O, reads no clock and allocates nothing; with the same seed the same calls in
// the same order choose the same engines. Not thread-safe: some policies count their choices.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;
  // Returns an engine that accepts, or none if no engine does; `punica` and `first_fit` also return
  // none while every engine is full.
  virtual Decision choose(const RouteRequest& request, std::span<const EngineView> engines) = 0;
  // The cost of an engine for a request about which choose() has just decided, as an explanation.
  // Changes nothing. No value: the policy minimises something else than time.
  virtual std::optional<CostEstimate> explain(const RouteRequest&, const EngineView&,
                                              EngineIndex) const {
    return std::nullopt;
  }
};

struct PolicyOptions {
  std::uint64_t seed = 1;
  // Mean answer length in tokens, over which rank_aware spreads a prefill.
  double average_answer_tokens = 58;
  // A decode step that takes longer violates the SLO (rank_aware); 0: no SLO.
  double slo_decode_s = 0;
  // The cost that rank_aware adds for a violated SLO; far above any other cost (see
  // rank_aware_policy.cpp).
  double penalty_s = 1;
  // hashing: the maximum requests of an engine, as a multiple of the mean.
  double hashing_bound = 1.25;
  // tandem: the maximum number of engines with an adapter, as a multiple of the engines that its
  // share of the demand fills; `least_replicas` are always allowed.
  double replicas_per_share = 10;
  std::int32_t least_replicas = 4;
};

// The names in the order of the reports.
std::vector<std::string> policy_names();
// An unknown name is an error that lists the valid ones.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options);

// Combines two hashes into a well mixed one. The function never changes, because stateless routers
// must agree on it.
constexpr std::uint64_t mix_hash(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ULL ^ (b + 0x632be59bd9b4e019ULL);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace tandem
