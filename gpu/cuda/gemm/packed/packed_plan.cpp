#include "gpu/cuda/gemm/packed/packed_plan.h"

#include <algorithm>

namespace tandem::cuda {
namespace {

constexpr int round_up(int a, int b) {
  return (a + b - 1) / b * b;
}
constexpr int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

// Places the parts of a stage, and as many stages as fit.
void lay_out(PackedPlan& plan, const PackedShape& shape, const PackedDevice& device) {
  const int halves = shape.halves ? 2 : 1;
  plan.chunks = ceil_div(shape.in, plan.chunk());
  plan.slabs = plan.chunk() * shape.bits / 8 / kPackedLineBytes;
  const int w = plan.slabs * plan.group_rows * kPackedLineBytes;
  const int x = plan.chunk() * 2 * plan.x_rows;
  plan.scale_groups = shape.group == 0 ? 0 : plan.chunk() / shape.group;
  const int numbers = plan.scale_groups * plan.scale_rows;
  const int plane = round_up(numbers, 128);
  const int zeros = shape.zeros ? 1 : 0;  // bytes for each scale
  plan.up = round_up(w, kPackedAlignment);
  plan.x = plan.up * halves;
  plan.scales = plan.x + round_up(x, kPackedAlignment);
  plan.up_numbers = plane;
  plan.zeros = plan.scales + plane * halves * shape.scale_bytes;
  plan.stage_bytes = round_up(plan.zeros + plane * halves * zeros, kPackedAlignment);
  plan.copied_bytes = (w + numbers * (shape.scale_bytes + zeros)) * halves + x;
  const int own_sums = plan.groups > 1 ? round_up(plan.sum_bytes(), 128) : 0;
  plan.table_bytes = shape.codebook ? kPackedTableBytes : 0;
  const int fixed =
      plan.table_bytes + kPackedAlignment + kPackedBarrierBytes + own_sums + kPackedBehind;
  plan.stages = std::min((device.shared_bytes - fixed) / plan.stage_bytes, kPackedMaxStages);
  plan.sums = plan.groups > 1 ? plan.stages * plan.stage_bytes : 0;
  plan.shared_bytes = fixed + plan.stages * plan.stage_bytes;
  if (own_sums == 0 && plan.sum_bytes() > plan.stages * plan.stage_bytes) plan.stages = 0;
}

}  // namespace

PackedPlan plan_packed_gemm(const PackedShape& shape, const PackedDevice& device) {
  PackedPlan plan{};
  plan.col_tiles = shape.rows <= 8 ? 1 : shape.rows <= 16 ? 2 : shape.rows <= 32 ? 4 : 8;
  // A copy of few rows brings those alone; the copy engine fills the others with zeros.
  plan.x_rows = plan.col_tiles == 1 ? shape.rows : 8 * plan.col_tiles;
  const int most_warps = plan.col_tiles == 8 ? kPackedMaxWarpsOf64 : kPackedMaxWarps;
  const int most_row_warps = most_warps / 2;
  const int halves = shape.halves ? 2 : 1;

  // All blocks read all of x for the columns that they compute, from L2. Clusters share rows of w
  // out among blocks until x is a minor part of what a block reads.
  int share = 0;
  for (const int cluster : {1, 2, 4}) {
    const int available = cluster == 1   ? device.processors
                          : cluster == 2 ? device.clusters_of[0]
                                         : device.clusters_of[1];
    const int clusters = std::min(available, shape.out);
    if (cluster > 1) {
      const int wider = clusters == 0 ? 0 : ceil_div(shape.out, clusters);
      constexpr int kFewestStages = 4;  // of each block
      if (clusters == 0 || wider * halves > 32 * most_row_warps ||
          shape.in < kFewestStages * cluster * 2 * kPackedSlice) {
        break;
      }
    }
    plan.cluster = cluster;
    plan.clusters = clusters;
    share = ceil_div(shape.out, clusters);
    const int w_bits = share * halves * shape.bits;  // of a column
    if (shape.rows * 16 * 4 <= w_bits * 5) break;
  }

  // More groups than rows of warps demand, if the sums of fewer leave no room for two stages.
  for (int groups = ceil_div(share * halves, 32 * most_row_warps); groups <= share; ++groups) {
    plan.groups = groups;
    plan.group_rows = ceil_div(share, groups);
    plan.scale_rows = round_up(plan.group_rows, 16);
    plan.row_warps = ceil_div(plan.group_rows * halves, 32);
    for (int warps = std::min(most_warps / plan.row_warps / 2 * 2, 8); warps >= 2; warps -= 2) {
      plan.column_warps = warps;
      lay_out(plan, shape, device);
      if (plan.stages >= 4) break;
    }
    if (plan.stages >= 2) break;
  }
  return plan;
}

}  // namespace tandem::cuda
