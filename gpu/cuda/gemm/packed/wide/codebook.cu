// Products of more rows by a codebook's codes.
#include "gpu/cuda/gemm/packed/wide/wide_kernel.cuh"
#include "gpu/cuda/gemm/packed/wide/wide_kernels.h"

namespace tandem::cuda {

PackedKernel wide_codebook_kernel(DType x, int col_tiles) {
  return x == DType::f16 ? select_wide_tiles<CodebookCodes<__half>, 2>(col_tiles)
                         : select_wide_tiles<CodebookCodes<__nv_bfloat16>, 2>(col_tiles);
}

}  // namespace tandem::cuda
