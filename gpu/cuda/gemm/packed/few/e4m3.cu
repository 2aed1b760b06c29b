// Products by FP8 codes.
#include "gpu/cuda/gemm/packed/few/few_select.cuh"

namespace tandem::cuda {

PackedKernel e4m3_kernel(DType x, int row_tiles, int col_tiles) {
  return x == DType::f16 ? select_tiles<SmallE4m3Codes<__half>, 4>(row_tiles, col_tiles)
                         : select_tiles<SmallE4m3Codes<__nv_bfloat16>, 4>(row_tiles, col_tiles);
}

}  // namespace tandem::cuda
