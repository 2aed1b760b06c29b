#include "scheduler/cluster/policies/rank_aware_policy.h"

namespace tandem {

// The paper does not state its penalty. Without it a cost is the time that a request adds to a
// step: milliseconds. One second is far above that, so among engines with the same number of
// requests an engine that keeps the SLO always wins. Because the cost is multiplied by the number
// of requests, an almost empty engine that violates the SLO may still win against a full one that
// keeps it.
double RankAwarePolicy::cost(const RouteRequest& request, const EngineView& engine) const {
  PrefillLoad queue = engine.waiting;
  const double queue_s = engine.costs.prefill_time_s(queue);
  queue.add(request.prefill());
  const double added_prefill_s = engine.costs.prefill_time_s(queue) - queue_s;

  DecodeLoad exists = engine.all();
  const auto requests = static_cast<double>(exists.requests);
  const double exists_s = engine.costs.decode_time_s(exists);
  exists.add(request.decode());
  const double with_s = engine.costs.decode_time_s(exists);

  double score = added_prefill_s / average_answer_tokens_ + (with_s - exists_s);
  if (slo_decode_s_ > 0 && with_s > slo_decode_s_) score += penalty_s_;
  return score * requests;
}

Decision RankAwarePolicy::choose(const RouteRequest& request, std::span<const EngineView> engines) {
  Decision best;
  bool best_room = false;
  std::int64_t best_requests = 0;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    const EngineView& engine = engines[i];
    if (!engine.accepts) continue;
    const bool room = has_room(engine, request);
    if (best.chosen() && best_room && !room) continue;
    const double total = cost(request, engine);
    const bool better = !best.chosen() || (room && !best_room) || total < best.cost ||
                        (total == best.cost && engine.requests() < best_requests);
    if (!better) continue;
    best = {EngineIndex(static_cast<std::int32_t>(i)), total};
    best_room = room;
    best_requests = engine.requests();
  }
  return best;
}

}  // namespace tandem
