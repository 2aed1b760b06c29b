// Chooses among a source's instances of packed_gemm.
#pragma once

#include "gpu/cuda/gemm/packed/few/few_kernel.cuh"
#include "gpu/cuda/gemm/packed/few/few_kernels.h"

namespace tandem::cuda {

template <typename Codes, int kUnits>
PackedKernel select_tiles(int row_tiles, int col_tiles) {
  if (row_tiles == 1) {
    return col_tiles == 1 ? packed_gemm<Codes, 1, 1, kUnits> : packed_gemm<Codes, 1, 2, kUnits>;
  }
  return col_tiles == 1 ? packed_gemm<Codes, 2, 1, kUnits> : packed_gemm<Codes, 2, 2, kUnits>;
}

template <typename Codes>
PackedKernel select_units(int row_tiles, int col_tiles, int units) {
  if (units == 1) return select_tiles<Codes, 1>(row_tiles, col_tiles);
  if (units == 2) return select_tiles<Codes, 2>(row_tiles, col_tiles);
  return select_tiles<Codes, 4>(row_tiles, col_tiles);
}

}  // namespace tandem::cuda
