// Products by affine codes of 4 bits.
#include "gpu/cuda/gemm/packed/few/few_select.cuh"

namespace tandem::cuda {

PackedKernel affine4_kernel(DType x, int row_tiles, int col_tiles, int units) {
  return x == DType::f16 ? select_units<AffineCodes4<__half>>(row_tiles, col_tiles, units)
                         : select_units<AffineCodes4<__nv_bfloat16>>(row_tiles, col_tiles, units);
}

}  // namespace tandem::cuda
