// Shared definitions of the GEMMs for few rows.
#pragma once

#include <cstdint>

#include "gpu/ops.h"

namespace tandem::cuda {

// The epilogue of a GEMM.
enum class GemmEnd : std::uint8_t {
  store,   // y = x w^T, y += ..., as GemmArgs
  swiglu,  // y = silu(g) u, where [g | u] = x w^T, each rounded to y's dtype: w has twice as many
           // rows as y has columns
  geglu,   // likewise with gelu_tanh(g)
};

// True for f16 or bf16, 1 to `most` rows, in % 64 == 0, and 16-byte aligned rows of x and w, as the
// copy engine requires.
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
