// Products of more rows by affine codes of 4 bits.
#include "gpu/cuda/gemm/packed/wide/wide_kernel.cuh"
#include "gpu/cuda/gemm/packed/wide/wide_kernels.h"

namespace tandem::cuda {

PackedKernel wide_affine4_kernel(DType x, int col_tiles, int units) {
  return x == DType::f16 ? select_wide_units<AffineCodes4<__half>>(col_tiles, units)
                         : select_wide_units<AffineCodes4<__nv_bfloat16>>(col_tiles, units);
}

}  // namespace tandem::cuda
