// Products by codes of a codebook.
#include "gpu/cuda/gemm/packed/packed_select.cuh"

namespace tandem::cuda {

PackedKernel codebook_kernel(DType x, int col_tiles) {
  return x == DType::f16 ? select_tiles<CodebookCodes<__half>, 2>(col_tiles)
                         : select_tiles<CodebookCodes<__nv_bfloat16>, 2>(col_tiles);
}

}  // namespace tandem::cuda
