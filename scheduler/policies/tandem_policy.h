// The default policy: rank, load, residency and cold start in one figure.
#pragma once

#include <limits>
#include <vector>

#include "scheduler/policies/demand_sketch.h"
#include "scheduler/policies/policy.h"

namespace tandem {

// Chooses the engine where all requests together lose the least time: what the new one will take
// there, and what it adds to those that run and wait. Seconds of requests, from the engine's own
// StepCosts and ColdStartCosts:
//
//   own     until it starts (the step under way, the queue, a free place), its adapter's fetch and
//           load or the workers in place of them, its prefill without what the prefix cache has:
//           all this counted two and a half times; and its tokens at the pace of the batch with it
//   others  its prefill for each that runs or whose prompt shares the step, its adapter's stall for
//           each that runs or waits, and the slower steps, by ranks and kernel, for as long as they
//           stay. Where prompts have steps of their own, its share of the step that stops the batch
//   later   a load: what is evicted must come back, and the link is taken from the next; once, and
//           once more for each that waits, as so many will when it comes back
//   misses  a fixed price for each request that would leave its SLO
//
// So a hot adapter is replicated as soon as its engines are slower than a cold start elsewhere, but
// while they keep the SLO never beyond replicas_per_share times the engines that its share of the
// demand fills, or least_replicas; and an adapter that nobody has settles where its hash prefers,
// among equals.
class TandemPolicy final : public Policy {
 public:
  explicit TandemPolicy(const PolicyOptions& options)
      : seed_(options.seed),
        replicas_per_share_(options.replicas_per_share),
        least_replicas_(options.least_replicas) {}
  std::string_view name() const override { return "tandem"; }
  Decision choose(const RouteRequest& request, std::span<const EngineView> engines) override;

 private:
  void note_arrival(double now_s, std::size_t engines);
  Decision note_choice(const Decision& choice, double now_s);

  std::uint64_t seed_;
  double replicas_per_share_;
  double least_replicas_;
  DemandSketch demand_;
  double last_arrival_s_ = 0;
  double mean_gap_s_ = 0;               // between requests; 0: not known
  std::vector<double> last_request_s_;  // of each engine; allocates only when the cluster grows
};

// What a cost is made of, each part as it counts: their sum is the cost.
struct CostTerms {
  double wait_s = 0;     // until it starts
  double cold_s = 0;     // its adapter comes
  double compute_s = 0;  // its prompt
  double decode_s = 0;   // its other tokens
  double others_s = 0;   // what it adds to those that run and wait
  double later_s = 0;    // what its load evicts
  double misses_s = 0;   // objectives that are missed

  double sum() const {
    return wait_s + cold_s + compute_s + decode_s + others_s + later_s + misses_s;
  }
};

// What the policy expects of a request on one engine; for logs and tests.
struct TandemEstimate {
  double ttft_s = 0;
  double token_s = 0;  // latency over tokens
  double cost_s = 0;   // of all requests together
  CostTerms terms;
};

// Arrivals, where prompts have steps of their own: they decide how many prompts share a step.
struct PromptSteps {
  double requests_per_s = 0;  // that arrive at the router
  // How long ago the engine was last sent a request.
  double since_last_s = std::numeric_limits<double>::infinity();
};

// `cached_tokens`: of the prompt, in the prefix cache. `active`: requests with its adapter that run
// or wait there.
TandemEstimate tandem_estimate(const RouteRequest& request, const EngineView& engine,
                               AdapterTier tier, std::int64_t cached_tokens,
                               std::int32_t active = 0, const PromptSteps& prompt_steps = {});

}  // namespace tandem
