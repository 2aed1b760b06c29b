#include "scheduler/cluster/policies/simple_policies.h"

#include <tuple>

namespace tandem {
namespace {

EngineIndex index_of(std::size_t i) {
  return EngineIndex(static_cast<std::int32_t>(i));
}

}  // namespace

Decision RandomPolicy::choose(const RouteRequest& /*request*/,
                              std::span<const EngineView> engines) {
  std::uint64_t accepting = 0;
  for (const EngineView& engine : engines) accepting += engine.accepts ? 1 : 0;
  if (accepting == 0) return {};
  std::uint64_t skip = mix_hash(seed_, calls_++) % accepting;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    if (engines[i].accepts && skip-- == 0) return {index_of(i)};
  }
  return {};
}

Decision RoundRobinPolicy::choose(const RouteRequest& /*request*/,
                                  std::span<const EngineView> engines) {
  for (std::size_t tried = 0; tried < engines.size(); ++tried) {
    const std::size_t i = (next_ + tried) % engines.size();
    if (!engines[i].accepts) continue;
    next_ = i + 1;
    return {index_of(i)};
  }
  return {};
}

Decision MostIdlePolicy::choose(const RouteRequest& /*request*/,
                                std::span<const EngineView> engines) {
  Decision best;
  std::tuple<std::int64_t, std::int64_t> least;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    const EngineView& engine = engines[i];
    if (!engine.accepts) continue;
    const std::tuple load{engine.requests(), engine.running.context_tokens + engine.waiting.tokens};
    if (best.chosen() && load >= least) continue;
    least = load;
    best = {index_of(i), static_cast<double>(engine.requests())};
  }
  return best;
}

Decision FirstFitPolicy::choose(const RouteRequest& request, std::span<const EngineView> engines) {
  for (std::size_t i = 0; i < engines.size(); ++i) {
    if (has_room(engines[i], request)) return {index_of(i)};
  }
  return {};
}

Decision PunicaPolicy::choose(const RouteRequest& request, std::span<const EngineView> engines) {
  Decision best;
  std::int64_t most = -1;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    if (!has_room(engines[i], request) || engines[i].requests() < most) continue;
    most = engines[i].requests();
    best = {index_of(i), -static_cast<double>(most)};
  }
  return best;
}

}  // namespace tandem
