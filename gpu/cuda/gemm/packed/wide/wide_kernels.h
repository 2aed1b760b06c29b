// The kernels of wide_kernel.cuh, in a source for each kind of code.
#pragma once

#include "base/dtype.h"
#include "gpu/cuda/gemm/packed/kernel/packed_params.h"

namespace tandem::cuda {

// False in a build without code for sm_90a.
bool has_wide_kernels();

// `x`: f16 or bf16. `col_tiles`: 4 or 8. `units`: units of 32 columns with a scale of their own: 1,
// 2 or 4; FP8: 4, codebooks: 2. Run on sm_90 alone.
PackedKernel wide_affine4_kernel(DType x, int col_tiles, int units);
PackedKernel wide_affine8_kernel(DType x, int col_tiles, int units);
PackedKernel wide_e4m3_kernel(DType x, int col_tiles);
PackedKernel wide_codebook_kernel(DType x, int col_tiles);

}  // namespace tandem::cuda
