// Chooses among a source's instances of packed_gemm.
#pragma once

#include "gpu/cuda/gemm/packed/packed_instances.h"
#include "gpu/cuda/gemm/packed/packed_kernel.cuh"

namespace tandem::cuda {

template <typename Codes, int kUnits>
PackedKernel select_tiles(int col_tiles) {
  if (col_tiles == 1) return packed_gemm<Codes, 1, kUnits>;
  if (col_tiles == 2) return packed_gemm<Codes, 2, kUnits>;
  if (col_tiles == 4) return packed_gemm<Codes, 4, kUnits>;
  return packed_gemm<Codes, 8, kUnits>;
}

template <typename Codes>
PackedKernel select_units(int col_tiles, int units) {
  if (units == 1) return select_tiles<Codes, 1>(col_tiles);
  if (units == 2) return select_tiles<Codes, 2>(col_tiles);
  return select_tiles<Codes, 4>(col_tiles);
}

}  // namespace tandem::cuda
