// Comparison of weights by the numbers that they stand for.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "engine/model/weights/weight_stack.h"
#include "tests/gpu/reference/packed_twin.h"

namespace tandem::test {

// All rows as floats, rounded to `dtype`, since a dense matrix that was converted to it is.
inline std::vector<std::vector<float>> numbers_of(const WeightStack& stack, DType dtype) {
  std::vector<std::vector<float>> rows;
  for (const Weight& part : stack.parts) {
    for (std::int64_t row = 0; row < part.rows(); ++row) {
      rows.push_back(reference::row_of(part, row));
      for (float& value : rows.back()) {
        if (dtype == DType::bf16) value = to_float(from_float<bf16>(value));
        if (dtype == DType::f16) value = to_float(from_float<f16>(value));
      }
    }
  }
  return rows;
}
inline bool same(const WeightStack& a, const WeightStack& b, DType dtype) {
  return numbers_of(a, dtype) == numbers_of(b, dtype);
}
inline bool same(const Weight& a, const Weight& b, DType dtype) {
  return same(WeightStack{{a}}, WeightStack{{b}}, dtype);
}

}  // namespace tandem::test
