// The parameters of the GEMM for 33 to 64 rows, and the part that one block computes.
#pragma once

#include <cstdint>

#include "gpu/cuda/gemm/warpgroup/warpgroup_plan.h"

namespace tandem::cuda {

struct WarpgroupParams {
  WarpgroupPlan plan;
  void* y;                // [rows, out]
  const void* bias;       // [out] or null
  std::int64_t y_stride;  // elements
  int out, rows;          // columns and rows of y
  bool pairs;             // two results at even columns may be stored as one
  bool y_is_f32;
  bool accumulate;
  bool swiglu;  // true: row `out` + o of w belongs with row o
  bool gelu;    // the activation is gelu_tanh, not silu
  bool as_is;   // true: y is the plain sums of single blocks, stored in pairs
};

// The part that a block computes: rows of w, cut into equal groups, and stages of inner columns.
struct WarpgroupShare {
  int rank;
  int begin, count;  // units of rows
  int first_chunk, chunks;
  __device__ explicit WarpgroupShare(const WarpgroupParams& p)
      : rank(static_cast<int>(blockIdx.x) & (p.plan.cluster - 1)) {
    const int cluster = static_cast<int>(blockIdx.x) >> (p.plan.cluster - 1);
    begin = cluster * p.plan.units + min(cluster, p.plan.units_left);
    count = p.plan.units + (cluster < p.plan.units_left ? 1 : 0);
    const int first_half = p.plan.chunks >> (p.plan.cluster - 1);
    first_chunk = rank == 0 ? 0 : first_half;
    chunks = rank == 0 ? first_half : p.plan.chunks - first_half;
  }
  __device__ int group_begin(const WarpgroupParams& p, int group) const {
    return (begin + count * group / p.plan.groups) * p.plan.unit;
  }
  // Warpgroup `v` has the group's columns [columns_begin(v), columns_end(v)).
  __device__ int columns_begin(const WarpgroupParams& p, int v) const {
    return p.swiglu ? 0 : v * p.plan.half;
  }
  __device__ int columns_end(const WarpgroupParams& p, int group, int v) const {
    const int end = group_begin(p, group + 1) - group_begin(p, group);
    return v == 0 ? min(end, p.plan.half) : end;
  }
  // The number of a warpgroup's tiles of eight columns; below, those that this block finishes: tile
  // j if j % cluster is the block's rank.
  __device__ int tiles(const WarpgroupParams& p, int group, int v) const {
    return max(0, (columns_end(p, group, v) - columns_begin(p, v) + 7) / 8);
  }
  __device__ int own_tiles(const WarpgroupParams& p, int group, int v) const {
    return (tiles(p, group, v) - rank + p.plan.cluster - 1) >> (p.plan.cluster - 1);
  }
};

}  // namespace tandem::cuda
