// Matrices that multiply the same input, stacked by rows.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/weight.h"

namespace tandem {

// Tensors of the checkpoint that have one form are one part; a checkpoint may quantise some of them
// otherwise than others.
struct WeightStack {
  std::vector<Weight> parts;  // one at least

  const Weight& front() const { return parts.front(); }
  bool is_one() const { return parts.size() == 1; }
  std::int64_t cols() const { return front().cols(); }
  std::int64_t rows() const {
    std::int64_t rows = 0;
    for (const Weight& part : parts) rows += part.rows();
    return rows;
  }
};

}  // namespace tandem
