// Algorithm 1 of the CaraServe paper.
#pragma once

#include "scheduler/cluster/policies/policy.h"

namespace tandem {

// Chooses among the engines with room (among all that accept, if none has room) the one with the
// least (added prefill / average answer + added decode + penalty) x requests; the penalty is added
// if a decode step with the request would exceed the SLO. Ties: the fewest requests, then the
// lowest index. The engine's StepCosts define its kernel.
class RankAwarePolicy final : public Policy {
 public:
  explicit RankAwarePolicy(const PolicyOptions& options)
      : average_answer_tokens_(options.average_answer_tokens),
        slo_decode_s_(options.slo_decode_s),
        penalty_s_(options.penalty_s) {}
  std::string_view name() const override { return "rank_aware"; }
  Decision choose(const RouteRequest& request, std::span<const EngineView> engines) override;

 private:
  double cost(const RouteRequest& request, const EngineView& engine) const;

  double average_answer_tokens_;
  double slo_decode_s_;
  double penalty_s_;
};

}  // namespace tandem
