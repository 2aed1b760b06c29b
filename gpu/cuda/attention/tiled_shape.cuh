// The shape of a block of the tiled kernel: its warps, stages and shared memory.
#pragma once

#include <algorithm>

#include "gpu/cuda/attention/kernels.h"

namespace tandem::cuda {

template <int kD>
struct TiledShape {
  static constexpr int kKeys = 16;                 // per stage and warp
  static constexpr int kWarps = kD > 128 ? 2 : 4;  // keeps a block under sm_86's limit of 99 KB
  static constexpr int kStages = 3;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kChunks = kD / 8;             // 16-byte pieces per row
  static constexpr int kTileBytes = kKeys * kD * 2;  // K or V of one stage
  static constexpr int kWarpBytes = kStages * 2 * kTileBytes;
  static constexpr int kRows = TileItem::kRows;
  // For the warps' results, which replace the stages (tiled_merge.cuh): the row stride makes the
  // elements that a warp stores at once fall into all banks.
  static constexpr int kResultStride = kD + 8;  // floats
  static constexpr int kPart = kRows * (kD + 2);
  static constexpr int kResultBytes =
      std::max(kWarps * kRows * (kResultStride + 2) + kPart, 2 * kMaxItemsPerTile * kRows) * 4;
  static constexpr int kSharedBytes = kWarps * kWarpBytes;
  static_assert(kResultBytes <= kSharedBytes);

  // The place of 16-byte piece `chunk` of row `row`: permuted so that the eight rows of a matrix
  // load touch all 32 banks.
  __device__ static int place(int row, int chunk) {
    const int turn = kChunks % 8 == 0 ? row & 7 : (row >> 1) & 3;
    return (row * kChunks + (chunk ^ turn)) * 16;
  }
};

}  // namespace tandem::cuda
