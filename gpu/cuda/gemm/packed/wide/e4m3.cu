// Products of more rows by e4m3 numbers.
#include "gpu/cuda/gemm/packed/wide/wide_kernel.cuh"
#include "gpu/cuda/gemm/packed/wide/wide_kernels.h"

namespace tandem::cuda {

PackedKernel wide_e4m3_kernel(DType x, int col_tiles) {
  return x == DType::f16 ? select_wide_tiles<E4m3Codes<__half>, 4>(col_tiles)
                         : select_wide_tiles<E4m3Codes<__nv_bfloat16>, 4>(col_tiles);
}

}  // namespace tandem::cuda
