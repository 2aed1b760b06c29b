// Products by codes of a codebook.
#include "gpu/cuda/gemm/packed/few/few_select.cuh"

namespace tandem::cuda {

PackedKernel codebook_kernel(DType x, int row_tiles, int col_tiles) {
  return x == DType::f16 ? select_tiles<CodebookCodes<__half>, 2>(row_tiles, col_tiles)
                         : select_tiles<CodebookCodes<__nv_bfloat16>, 2>(row_tiles, col_tiles);
}

}  // namespace tandem::cuda
