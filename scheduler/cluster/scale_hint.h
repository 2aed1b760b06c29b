// How many engines the load needs, after Punica's section 5.1: more when no engine is lightly
// loaded, fewer when some have nothing to do.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "scheduler/policies/engine_view.h"

namespace tandem {

struct ScaleHint {
  std::int32_t engines = 0;        // that accept
  std::int32_t wanted = 0;         // for this load; at least 1
  std::vector<EngineIndex> light;  // lightly loaded, those without load included
  std::vector<EngineIndex> idle;   // without load

  std::string_view action() const;  // "grow", "shrink" or "hold"
};

// At most half of its places and of its KV are taken.
bool is_light(const EngineView& engine);
// More than three quarters of either are.
bool is_full(const EngineView& engine);

// Lightly loaded: at most half of the places and of the KV are taken. The load needs as many
// engines as hold it at three quarters of either, and one more than there are if none is lightly
// loaded or requests wait. `waiting`: requests before the engines.
ScaleHint scale_hint(std::span<const EngineView> engines, std::int64_t waiting);

}  // namespace tandem
