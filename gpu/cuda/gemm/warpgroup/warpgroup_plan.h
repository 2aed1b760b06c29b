// The work split of the GEMM for 33 to 64 rows; it depends only on the shapes and the device.
#pragma once

#include "gpu/cuda/gemm/warpgroup/warpgroup_gemm.h"

namespace tandem::cuda {

constexpr int kWarpgroupSlab = 64;        // columns swizzled together: 128 bytes of a row
constexpr int kWarpgroupSlabBytes = 128;  // per row
constexpr int kWarpgroupConsumers = 8;    // warps, beside one producer
constexpr int kWarpgroupTile = 64;        // rows of x per product
constexpr int kWarpgroupMaxStages = 16;
constexpr int kWarpgroupAlignment = 1024;  // the swizzle's period
constexpr int kWarpgroupBarrierBytes = 1024;
constexpr int kWarpgroupTileBytes = 2048;  // sums of eight rows of w: 16 bytes per thread

// Supported numbers of columns of a warpgroup's product; each is a kernel of its own.
constexpr int kWarpgroupColumns[] = {32, 48, 96, 128};
constexpr int kWarpgroupMaxColumns = 128;

// Shared memory: barriers | stages | the larger of: what products read beyond the last stage; sums
// that cannot lie in the ring. A stage holds slabs of x, then slabs of w.
struct WarpgroupPlan {
  int cluster;  // blocks that share the inner dimension: 1 or 2
  int clusters;
  int unit;   // columns of y that stay together so that results are stored in pairs
  int units;  // per cluster; the first `units_left` clusters have one more
  int units_left;
  int groups;        // groups of a cluster's columns, computed one after another; 1 for two blocks
  int group_rows;    // of the largest group
  int half;          // rows of w per stage for the first warpgroup; a multiple of 8
  int columns;       // of the kernel's product, >= half
  int slabs;         // per stage
  int chunks;        // stages over the whole inner dimension
  int stages;        // in the ring
  int x_rows;        // per stage, a multiple of 8
  int x_slab_bytes;  // distance between slabs of x in a stage; next: of w
  int w_slab_bytes;
  int stage_bytes;
  int most_tiles;  // tiles of eight rows of w that a warpgroup finishes
  int own_sums;    // offset of a block's own sums from the ring's beginning
  int ring_bytes;
  int shared_bytes;
};
// `out`: columns of y. GemmEnd::swiglu, geglu: a block's first warpgroup has all of its rows of
// gate, the second those of up, which come in a box of their own.
WarpgroupPlan plan_warpgroup_gemm(int rows, int in, int out, const WarpgroupDevice& device,
                                  GemmEnd end = GemmEnd::store);

}  // namespace tandem::cuda
