// The default policy: combines rank, load, residency and cold start in one cost.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "scheduler/cluster/policies/demand_sketch.h"
#include "scheduler/cluster/policies/policy.h"

namespace tandem {

// Chooses the engine with the least total time over all requests: the time that the new request
// takes there plus the time that it adds to running and waiting requests. The cost is in seconds of
// requests, from the engine's own StepCosts and ColdStartCosts:
//
//   own     time until it starts (the current step, the queue, a free place), its adapter's fetch
//           and load, or the workers instead, and its prefill without cached tokens, all multiplied
//           by kFirstTokenWeight; and its tokens at the pace of the batch that includes it
//   others  its prefill for each request that runs or whose prompt shares the step, its adapter's
//           stall for each that runs or waits, and the slower steps, by ranks and kernel, for as
//           long as they stay. With separate prompt steps: its share of the step that stops the
//           batch
//   later   a load: the evicted adapter must be loaded again, and the link is taken from the next
//           load; once, and once more per waiting request, as an estimate of those delayed then
//   misses  a fixed cost for each request that would miss its SLO
//
// So a hot adapter is replicated as soon as its engines are slower than a cold start elsewhere.
// While they keep the SLO, its engines never exceed replicas_per_share times the engines that its
// share of the demand fills, or least_replicas. An adapter that no engine has goes to the engine
// that its hash prefers among equally good ones.
class TandemPolicy final : public Policy {
 public:
  explicit TandemPolicy(const PolicyOptions& options)
      : seed_(options.seed),
        replicas_per_share_(options.replicas_per_share),
        least_replicas_(options.least_replicas) {}
  std::string_view name() const override { return "tandem"; }
  Decision choose(const RouteRequest& request, std::span<const EngineView> engines) override;
  std::optional<CostEstimate> explain(const RouteRequest& request, const EngineView& engine,
                                      EngineIndex index) const override;

 private:
  void note_arrival(double now_s, std::size_t engines);
  Decision note_choice(const Decision& choice, double now_s);

  std::uint64_t seed_;
  double replicas_per_share_;
  double least_replicas_;
  DemandSketch demand_;
  double last_arrival_s_ = 0;
  double mean_gap_s_ = 0;               // between requests; 0: not known
  std::vector<double> last_request_s_;  // by engine; allocates only when the cluster grows
};

// Arrival data for engines with separate prompt steps: it determines how many prompts share a step.
struct PromptSteps {
  double requests_per_s = 0;  // arriving at the router
  // Time since the engine was last sent a request.
  double since_last_s = std::numeric_limits<double>::infinity();
};

// The prediction for a request on one engine. `cached_tokens`: tokens of the prompt in the prefix
// cache. `active`: running or waiting requests with its adapter on this engine.
CostEstimate tandem_estimate(const RouteRequest& request, const EngineView& engine,
                             AdapterTier tier, std::int64_t cached_tokens, std::int32_t active = 0,
                             const PromptSteps& prompt_steps = {});

}  // namespace tandem
