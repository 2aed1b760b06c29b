// The cost of moving a stream to another engine.
#include "scheduler/cluster/members/cluster.h"
#include "scheduler/cluster/policies/tandem_policy.h"

namespace tandem {

std::optional<MoveCost> Cluster::move_cost(const Wanted& wanted, EngineIndex to,
                                           const EngineView& as, TimePoint now) const {
  const auto found = models_.find(wanted.model);
  const Model* const model = found == models_.end() ? nullptr : &found->second;
  if (!as.accepts || (model == nullptr && !wanted.model.empty())) return std::nullopt;
  if (!serves(model, to) || !has_weights(wanted, model, to)) return std::nullopt;
  const RouteRequest request = route_request(wanted, model, now);
  const AdapterHold hold = request.hold_on(to);
  MoveCost cost;
  cost.cold = hold.tier != AdapterTier::resident && hold.tier != AdapterTier::loading;
  cost.pause_s = tandem_estimate(request, as, hold.tier, 0, hold.active_requests).ttft_s;
  cost.prefill = request.prefill();
  cost.kv_tokens = request.kv_tokens();
  cost.load_bytes = cost.cold ? request.adapter_bytes : 0;
  return cost;
}

}  // namespace tandem
