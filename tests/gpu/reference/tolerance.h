// The allowed difference between a device operation and its host twin:
// |got - want| <= absolute + relative |want|.
#pragma once

#include <cmath>

#include "base/dtype.h"

namespace tandem {

struct Tolerance {
  double absolute;
  double relative;
  bool accepts(double got, double want) const {
    return std::abs(got - want) <= absolute + relative * std::abs(want) || got == want ||
           (std::isnan(got) && std::isnan(want));
  }
};

// For results of the order of 1. Both sides accumulate in float, in different orders, and round
// once to the dtype; a result near the middle of two neighbours may round either way.
inline Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return {1e-4, 0x1p-7};
    case DType::f16:
      return {5e-5, 0x1p-10};
    default:
      return {2e-5, 2e-5};
  }
}

}  // namespace tandem
