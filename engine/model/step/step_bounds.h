// The sizes that steps are padded to, so that a few graphs serve every step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/step/site_set.h"

namespace tandem {

// The sizes that a decode step is padded to (StepBatch::pad). Its graph depends on these and on the
// halved sites alone.
struct StepBounds {
  std::int32_t rows = 0;             // also of sequences, and of segments if there are adapters
  std::int32_t max_rank = 0;         // 0: no adapters
  std::int32_t max_kv_len = 0;       // keys of the longest sequence
  SiteSet adapted = SiteSet::all();  // sites where adapters may have modules
  bool has_bias = false;             // whether adapters may have biases
};

// The values below `last` of ascending `values`, then `last`; empty if `last` is 0.
std::vector<std::int32_t> bounds_up_to(std::span<const std::int32_t> values, std::int32_t last);

// The smallest of ascending `bounds` that is at least `value`; 0 if there is none.
std::int32_t bound_of(std::span<const std::int32_t> bounds, std::int32_t value);

}  // namespace tandem
