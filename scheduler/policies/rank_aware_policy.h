// The CaraServe paper's Algorithm 1.
#pragma once

#include "scheduler/policies/policy.h"

namespace tandem {

// Of the engines with room (of all that accept, if none has room) the one with the least
// (added prefill / average answer + added decode + penalty) x requests, where the penalty is added
// if a decode step with the request would be above the SLO. Equal: the fewest requests, then the
// lowest index. An engine's StepCosts say which kernel it has.
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
