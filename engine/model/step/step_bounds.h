// Sizes that steps are filled up to, so that a few recordings serve every step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/step/site_set.h"

namespace tandem {

// What a decode step is filled up to (StepBatch::pad), and all that a recording of it depends on
// but for the sites that are halved.
struct StepBounds {
  std::int32_t rows = 0;        // of as many sequences; and segments, where there is any adapter
  std::int32_t max_rank = 0;    // 0: no adapter
  std::int32_t max_kv_len = 0;  // keys of any sequence
  SiteSet adapted = SiteSet::all();  // where adapters may have modules
  friend bool operator==(const StepBounds&, const StepBounds&) = default;
};

// Those of ascending `values` that are below `last`, then that; none for 0.
std::vector<std::int32_t> bounds_up_to(std::span<const std::int32_t> values, std::int32_t last);

// The smallest of ascending `bounds` that is no less than `value`; 0 if there is none.
std::int32_t bound_of(std::span<const std::int32_t> bounds, std::int32_t value);

}  // namespace tandem
