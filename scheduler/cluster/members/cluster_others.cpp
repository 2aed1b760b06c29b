// The engines for a request whose chosen engine cannot be reached.
#include <algorithm>
#include <tuple>

#include "scheduler/cluster/members/cluster.h"

namespace tandem {

std::vector<EngineIndex> Cluster::others(const Wanted& wanted, EngineIndex chosen) const {
  struct Candidate {
    EngineIndex engine;
    AdapterTier tier = AdapterTier::absent;
    std::int64_t requests = 0;
  };
  const auto found = models_.find(wanted.model);
  if (found == models_.end() && !wanted.model.empty()) return {};
  // Without a model any engine will do; an offered adapter is loaded by any engine on request.
  const bool any = found == models_.end() || found->second.offered;
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const EngineIndex engine(static_cast<std::int32_t>(i));
    if (!views_[i].accepts || !wanted.allows(i) || engine == chosen) continue;
    if (!any && !std::ranges::binary_search(found->second.engines, engine)) continue;
    candidates.push_back({engine, AdapterTier::absent, views_[i].requests()});
  }
  if (found != models_.end() && found->second.adapter.valid()) {
    for (const AdapterHold& hold : index_.holds(found->second.adapter)) {
      const auto place = std::ranges::find(candidates, hold.engine, &Candidate::engine);
      if (place != candidates.end()) place->tier = hold.tier;
    }
  }
  std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tuple(b.tier, a.requests) < std::tuple(a.tier, b.requests);
  });
  std::vector<EngineIndex> engines;
  engines.reserve(candidates.size());
  for (const Candidate& candidate : candidates) engines.push_back(candidate.engine);
  return engines;
}

}  // namespace tandem
