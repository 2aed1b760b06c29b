#include "scheduler/cluster/policies/adapter_policies.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {
namespace {

// The picker's scores for an adapter: it is active, it can be loaded, it cannot be loaded.
constexpr double kActive = 1;
constexpr double kHasPlace = 0.8;
constexpr double kNoPlace = 0;

struct Waits {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = 0;
};

double affinity_score(const EngineView& engine, double adapter, const Waits& waits) {
  const double queue = waits.most == waits.least
                           ? 1
                           : static_cast<double>(waits.most - engine.waiting.requests) /
                                 static_cast<double>(waits.most - waits.least);
  const double kv = engine.kv_tokens <= 0 ? 0
                                          : std::clamp(static_cast<double>(engine.kv_free_tokens) /
                                                           static_cast<double>(engine.kv_tokens),
                                                       0.0, 1.0);
  return adapter + queue + kv;
}

}  // namespace

Decision HashingPolicy::choose(const RouteRequest& request, std::span<const EngineView> engines) {
  std::int64_t requests = 0;
  std::int64_t accepting = 0;
  for (const EngineView& engine : engines) {
    if (!engine.accepts) continue;
    requests += engine.requests();
    ++accepting;
  }
  if (accepting == 0) return {};
  // The request itself is counted, so the mean is above zero and some engine is below the limit.
  const double limit =
      std::ceil(bound_ * static_cast<double>(requests + 1) / static_cast<double>(accepting));
  Decision best;
  std::uint64_t highest = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < engines.size(); ++i) {
    const EngineView& engine = engines[i];
    if (!engine.accepts || static_cast<double>(engine.requests() + 1) > limit) continue;
    if (request.adapter.valid()) {
      const std::uint64_t score =
          mix_hash(mix_hash(seed_, static_cast<std::uint64_t>(request.adapter.value())), i);
      if (best.chosen() && score <= highest) continue;
      highest = score;
    } else {
      if (engine.requests() >= least) continue;
      least = engine.requests();
    }
    best = {EngineIndex(static_cast<std::int32_t>(i)), static_cast<double>(engine.requests())};
  }
  return best;
}

Decision AffinityPolicy::choose(const RouteRequest& request, std::span<const EngineView> engines) {
  Waits waits;
  for (const EngineView& engine : engines) {
    if (!engine.accepts) continue;
    waits.least = std::min(waits.least, engine.waiting.requests);
    waits.most = std::max(waits.most, engine.waiting.requests);
  }
  Decision best;
  const auto offer = [&](std::size_t i, double adapter) {
    const double score = affinity_score(engines[i], adapter, waits);
    if (best.chosen() && -score >= best.cost) return;
    best = {EngineIndex(static_cast<std::int32_t>(i)), -score};
  };
  for (std::size_t i = 0; i < engines.size(); ++i) {
    if (!engines[i].accepts) continue;
    const bool place = engines[i].adapter_free_bytes >= request.adapter_bytes;
    offer(i, !request.adapter.valid() || place ? kHasPlace : kNoPlace);
  }
  for (const AdapterHold& hold : request.holds) {
    if (hold.active_requests <= 0 || !hold.engine.valid() || hold.engine.index() >= engines.size())
      continue;
    if (engines[hold.engine.index()].accepts) offer(hold.engine.index(), kActive);
  }
  return best;
}

}  // namespace tandem
