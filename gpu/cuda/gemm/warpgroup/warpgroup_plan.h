// How the GEMM for 33 to 64 rows cuts its work: it follows from the shapes and the device alone.
#pragma once

#include "gpu/cuda/gemm/warpgroup/warpgroup_gemm.h"

namespace tandem::cuda {

constexpr int kWarpgroupSlab = 64;        // columns that are swizzled together: 128 bytes of a row
constexpr int kWarpgroupSlabBytes = 128;  // of a row
constexpr int kWarpgroupConsumers = 8;    // warps, and one that produces
constexpr int kWarpgroupTile = 64;        // rows of x in a product
constexpr int kWarpgroupMaxStages = 16;
constexpr int kWarpgroupAlignment = 1024;  // the swizzle's period
constexpr int kWarpgroupBarrierBytes = 1024;
constexpr int kWarpgroupTileBytes = 2048;  // the sums of eight of w's rows: 16 per thread

// Columns that a warpgroup's product may have; each is a kernel.
constexpr int kWarpgroupColumns[] = {32, 48, 96, 128};
constexpr int kWarpgroupMaxColumns = 128;

// Shared memory: barriers | stages | the largest of what products read beyond the last stage, and
// sums that cannot lie in the ring. A stage: slabs of x, then slabs of w.
struct WarpgroupPlan {
  int cluster;  // blocks that share the inner dimension: 1 or 2
  int clusters;
  int unit;   // columns of y that stay together, so that results are stored in pairs
  int units;  // of every cluster; the first `units_left` have one more
  int units_left;
  int groups;        // of every cluster's columns, computed one after the other; 1 for two blocks
  int group_rows;    // the largest group's
  int half;          // of w's rows in a stage, for the first warpgroup; a multiple of 8
  int columns;       // of the kernel's product, >= half
  int slabs;         // of a stage
  int chunks;        // stages that the inner dimension makes
  int stages;        // of the ring
  int x_rows;        // of a stage, a multiple of 8
  int x_slab_bytes;  // from slab to slab of x in a stage, and of w
  int w_slab_bytes;
  int stage_bytes;
  int most_tiles;  // of eight rows of w that a warpgroup finishes
  int own_sums;    // where a block's own sums are put, from the ring's begin
  int ring_bytes;
  int shared_bytes;
};
// `out`: columns of y. GemmEnd::swiglu: a block's first warpgroup has all of its rows of gate, the
// second those of up, which come in a box of their own.
WarpgroupPlan plan_warpgroup_gemm(int rows, int in, int out, const WarpgroupDevice& device,
                                  GemmEnd end = GemmEnd::store);

}  // namespace tandem::cuda
