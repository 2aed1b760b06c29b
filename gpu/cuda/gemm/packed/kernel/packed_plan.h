// The work split of the products by packed weights; it depends only on the shapes and the device.
#pragma once

#include <array>

#include "gpu/host_and_device.h"

namespace tandem::cuda {

constexpr int kPackedSlice = 128;   // columns of a stage that a warp multiplies at once
constexpr int kPackedMaxRows = 64;  // of x
constexpr int kPackedFewRows = 16;  // of x: with more, warpgroups multiply (wide/)
constexpr int kPackedMaxStages = 8;
constexpr int kPackedAlignment = 1024;  // the swizzle's period
constexpr int kPackedBarrierBytes = 1024;
constexpr int kPackedLineBytes = 128;  // of a row, swizzled together
// Bytes behind the last stage. Warps of 32 rows read up to 31 lines beyond a stage's rows of w, and
// numbers of as many rows beyond its scales and zeros. Warpgroups read up to 63 lines, which end in
// the stage's x.
constexpr int kPackedBehind = 31 * kPackedLineBytes;
// Rows. The copy engine reads from addresses that are multiples of 16 bytes alone (others are an
// illegal instruction), and a zero is a byte.
constexpr int kPackedScaleStep = 16;
constexpr int kPackedWideRows = 64;  // of w that a warpgroup multiplies
// Warps beside the producer: as many as find registers for the sums of 16 `row_tiles` rows of w and
// 8 `col_tiles` rows of x; registers are shared out to fours of warps.
TANDEM_HOST_DEVICE constexpr int most_packed_warps(int row_tiles, int col_tiles) {
  return row_tiles == 1 && col_tiles <= 2 ? 19 : col_tiles == 1 ? 19 : col_tiles == 2 ? 15 : 12;
}

struct PackedShape {
  int rows;  // of x
  int in;
  int out;          // columns of y
  int bits;         // of a code
  int group;        // columns that share a scale; 0: whole rows
  int scale_bytes;  // of a scale
  bool zeros;       // one byte for each group
  bool halves;      // row `out` + o of w belongs with row o
  bool codebook;
};

struct PackedDevice {
  bool supported = false;
  bool wide = false;  // warpgroups multiply more than kPackedFewRows rows
  int processors = 0;
  int shared_bytes = 0;                 // maximum per block
  std::array<int, 2> clusters_of = {};  // resident clusters of 2 and 4 blocks
};

constexpr int kPackedTableBytes = 64 * 1024;  // of a codebook: packed_fragment.cuh

// Shared memory: barriers | a codebook's table | stages | sums of a block that computes several
// groups of rows; an only group's lie over the stages. A stage: w, then up's rows of w, x, scales,
// up's scales, zeros, up's zeros. Of scales and of zeros, those of up are `up_numbers` numbers
// further.
struct PackedPlan {
  int cluster;  // blocks that share rows of w, each with a part of its columns: 1, 2 or 4
  int clusters;
  int share;  // columns of y of a cluster; the first `shares_left` clusters have one more
  int shares_left;
  int groups;        // groups of a cluster's columns of y, one after another
  int group_rows;    // columns of y in the largest group: the rows of a copy of w
  int row_tiles;     // of 16 rows of w that a warp multiplies: 1 or 2; of a warpgroup's warps 1
  int row_warps;     // row_tiles each; a multiple of 4 if warpgroups multiply
  int column_warps;  // `slices` of kPackedSlice columns of a stage each
  int slices;        // 1, of a warpgroup's warps 2
  int col_tiles;     // eights of x's rows: 1, 2, 4 or 8
  int x_rows;        // of a copy of x
  int chunks;        // stages over all columns
  int slabs;         // lines of a row of w in a stage
  int scale_rows;    // of a copy of scales, which begins at a multiple of kPackedScaleStep rows
  int scale_groups;  // in a stage
  int up, x, scales, zeros;  // offsets in a stage
  int up_numbers;
  int copied_bytes;  // of a stage
  int stage_bytes;
  int stages;
  int table_bytes;
  int sums;  // offset from the first stage
  int shared_bytes;

  TANDEM_HOST_DEVICE constexpr bool is_wide() const { return slices == 2; }
  TANDEM_HOST_DEVICE constexpr int chunk() const { return column_warps * slices * kPackedSlice; }
  // Rows of w that the block's warps multiply at once; up's begin in the middle.
  TANDEM_HOST_DEVICE constexpr int slots() const { return 16 * row_tiles * row_warps; }
  TANDEM_HOST_DEVICE constexpr int sum_pitch() const {
    return slots() + 4;
  }  // floats; the 4 avoid bank conflicts
  // [column_warps, 8 col_tiles, sum_pitch()], then a scale and a bias for each slot.
  TANDEM_HOST_DEVICE constexpr int sum_count() const {
    return column_warps * 8 * col_tiles * sum_pitch();
  }
  TANDEM_HOST_DEVICE constexpr int sum_bytes() const { return (sum_count() + 2 * slots()) * 4; }
};
// stages is below 2 if the device's shared memory does not suffice.
PackedPlan plan_packed_gemm(const PackedShape& shape, const PackedDevice& device);

}  // namespace tandem::cuda
