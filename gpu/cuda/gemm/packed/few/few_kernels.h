// The kernels of few_kernel.cuh, in a source for each kind of code.
#pragma once

#include "base/dtype.h"
#include "gpu/cuda/gemm/packed/kernel/packed_params.h"

namespace tandem::cuda {

// `x`: f16 or bf16. `row_tiles`, `col_tiles`: 1 or 2. `units`: units of 32 columns with a scale of
// their own: 1, 2 or 4; FP8: 4, codebooks: 2.
PackedKernel affine4_kernel(DType x, int row_tiles, int col_tiles, int units);
PackedKernel affine8_kernel(DType x, int row_tiles, int col_tiles, int units);
PackedKernel e4m3_kernel(DType x, int row_tiles, int col_tiles);
PackedKernel codebook_kernel(DType x, int row_tiles, int col_tiles);

}  // namespace tandem::cuda
