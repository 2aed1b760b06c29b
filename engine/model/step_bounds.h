// Sizes that steps are filled up to, so that a few recordings serve every step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/site_set.h"

namespace tandem {

// What a step is filled up to (StepBatch::pad). All that a recording of it, or of its layers,
// depends on but for the sites that are halved, offered, or offered for x A^T alone.
struct StepBounds {
  std::int32_t rows = 0;
  std::int32_t sequences = 0;   // and segments, where there is any adapter
  std::int32_t max_rank = 0;    // 0: no adapter
  std::int32_t max_kv_len = 0;  // keys of any sequence
  std::int32_t groups = 0;      // cold ones; 0: none
  // The recording has the head, which then computes as many rows as there are; else it computes
  // the step's own alone.
  bool with_logits = false;
  SiteSet adapted = SiteSet::all();  // where adapters may have modules
  friend bool operator==(const StepBounds&, const StepBounds&) = default;
};

// Those of ascending `values` that are below `last`, then that; none for 0.
std::vector<std::int32_t> bounds_up_to(std::span<const std::int32_t> values, std::int32_t last);

// The smallest of ascending `bounds` that is no less than `value`; 0 if there is none.
std::int32_t bound_of(std::span<const std::int32_t> bounds, std::int32_t value);

}  // namespace tandem
