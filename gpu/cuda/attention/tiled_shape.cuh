// The shape of a block of the tiled kernel: its warps, stages and shared memory.
//
// Warps work in teams: a team takes a group of keys; each of its warps computes all scores of the
// group and at most 128 columns of the output, which fit into its registers. So heads of up to 128
// have four teams of one warp, heads of 256 two teams of two, and heads of 512 one of four.
#pragma once

#include <algorithm>

#include "gpu/cuda/attention/kernels.h"

namespace tandem::cuda {

template <int kD>
struct TiledShape {
  static constexpr int kKeys = 16;  // per stage and team
  static constexpr int kWarps = 4;
  static constexpr int kTeamWarps = kD > 128 ? kD / 128 : 1;
  static constexpr int kTeams = kWarps / kTeamWarps;  // keeps a block under sm_86's limit of 99 KB
  static constexpr int kColumns = kD / kTeamWarps;    // of the output, per warp
  static constexpr int kStages = 3;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kTeamThreads = kTeamWarps * 32;
  static constexpr int kChunks = kD / 8;             // 16-byte pieces per row
  static constexpr int kTileBytes = kKeys * kD * 2;  // K or V of one stage
  static constexpr int kTeamBytes = kStages * 2 * kTileBytes;
  static constexpr int kRows = TileItem::kRows;
  // For the teams' results, which replace the stages (tiled_merge.cuh): the row stride makes the
  // elements that a warp stores at once fall into all banks.
  static constexpr int kResultStride = kD + 8;  // floats
  static constexpr int kPart = kRows * (kD + 2);
  static constexpr int kResultBytes =
      std::max(kTeams * kRows * (kResultStride + 2) + kPart, 2 * kMaxItemsPerTile * kRows) * 4;
  static constexpr int kSharedBytes = kTeams * kTeamBytes;
  static_assert(kResultBytes <= kSharedBytes);

  // The place of 16-byte piece `chunk` of row `row`: permuted so that the eight rows of a matrix
  // load touch all 32 banks.
  __device__ static int place(int row, int chunk) {
    const int turn = kChunks % 8 == 0 ? row & 7 : (row >> 1) & 3;
    return (row * kChunks + (chunk ^ turn)) * 16;
  }
};

}  // namespace tandem::cuda
