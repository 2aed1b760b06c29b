// The number of engines that the load needs, after Punica's section 5.1: more when no engine is
// lightly loaded, fewer when some have nothing to do.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "scheduler/cluster/view/engine_view.h"

namespace tandem {

struct ScaleHint {
  std::int32_t engines = 0;        // engines that accept
  std::int32_t wanted = 0;         // for this load; at least 1
  std::vector<EngineIndex> light;  // lightly loaded, those without load included
  std::vector<EngineIndex> idle;   // without load

  std::string_view action() const;  // "grow", "shrink" or "hold"
};

// Whether at most half of the places and of the KV are taken.
bool is_light(const EngineView& engine);
// Whether more than three quarters of either are taken.
bool is_full(const EngineView& engine);

// The load needs as many engines as hold it at three quarters of places and KV, and one more than
// there are if none is_light() or requests wait. `waiting`: requests that wait for an engine.
ScaleHint scale_hint(std::span<const EngineView> engines, std::int64_t waiting);

}  // namespace tandem
