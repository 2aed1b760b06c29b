// What the GEMMs for few rows have in common.
#pragma once

#include <cstdint>

#include "gpu/ops.h"

namespace tandem::cuda {

// What becomes of a product.
enum class GemmEnd : std::uint8_t {
  store,   // y = x w^T, y += ..., as GemmArgs
  swiglu,  // y = silu(g) u, where [g | u] = x w^T, each rounded to y's dtype: w has twice y's
           // columns
};

// f16 or bf16, 1 to `most` rows, in % 64 == 0, 16-byte aligned x rows and w: what the copy engine
// brings.
inline bool has_few_rows(const GemmArgs& args, int most) {
  const auto aligned = [](const TensorView& view) {
    return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 &&
           (view.rows() == 1 || view.stride[0] % 8 == 0);
  };
  return (args.x.dtype == DType::f16 || args.x.dtype == DType::bf16) && args.x.rows() > 0 &&
         args.x.rows() <= most && args.x.cols() > 0 && args.x.cols() % 64 == 0 && aligned(args.x) &&
         aligned(args.w.data) && args.w.rows() > 0 && args.w.rows() < (1 << 26);
}

}  // namespace tandem::cuda
