// The cost of moving a stream to another engine.
#include <algorithm>

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
  AdapterTier tier = AdapterTier::resident;
  std::int32_t active = 0;
  if (request.adapter.valid()) {
    const auto hold = std::ranges::find(request.holds, to, &AdapterHold::engine);
    const bool held = hold != request.holds.end();
    tier = held ? hold->tier : AdapterTier::absent;
    active = held ? hold->active_requests : 0;
  }
  MoveCost cost;
  cost.cold = tier != AdapterTier::resident && tier != AdapterTier::loading;
  cost.pause_s = tandem_estimate(request, as, tier, 0, active).ttft_s;
  cost.prefill = request.prefill();
  cost.kv_tokens = request.kv_tokens();
  cost.load_bytes = cost.cold ? request.adapter_bytes : 0;
  return cost;
}

}  // namespace tandem
