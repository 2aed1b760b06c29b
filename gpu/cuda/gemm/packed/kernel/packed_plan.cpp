#include "gpu/cuda/gemm/packed/kernel/packed_plan.h"

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

// The number of clusters of 1, 2 or 4 blocks.
int clusters_of(int cluster, const PackedShape& shape, const PackedDevice& device) {
  const int resident = cluster == 1   ? device.processors
                       : cluster == 2 ? device.clusters_of[0]
                                      : device.clusters_of[1];
  return std::min(resident, shape.out);
}

void split_rows(PackedPlan& plan, const PackedShape& shape, int groups) {
  const int halves = shape.halves ? 2 : 1;
  plan.share = shape.out / plan.clusters;
  plan.shares_left = shape.out % plan.clusters;
  plan.group_rows = ceil_div(ceil_div(shape.out, plan.clusters), groups);
  plan.groups = ceil_div(ceil_div(shape.out, plan.clusters), plan.group_rows);
  plan.scale_rows = round_up(plan.group_rows + kPackedScaleStep - 1, kPackedScaleStep);
  const int slots = plan.group_rows * halves;
  if (plan.is_wide()) {
    plan.row_warps = 4 * ceil_div(slots, kPackedWideRows);
  } else if (plan.row_tiles == 1) {  // no sixteen has rows of both halves
    plan.row_warps = halves * ceil_div(plan.group_rows, 16);
  } else {
    plan.row_warps = ceil_div(slots, 32);
  }
}

PackedPlan plan_few(const PackedShape& shape, const PackedDevice& device) {
  PackedPlan plan{};
  plan.row_tiles = 2;
  plan.slices = 1;
  plan.col_tiles = shape.rows <= 8 ? 1 : 2;
  // A copy of few rows brings those alone; the copy engine fills the others with zeros.
  plan.x_rows = plan.col_tiles == 1 ? shape.rows : 8 * plan.col_tiles;
  constexpr int kMostRowWarps = 7;  // a copy has 256 rows at most, one of scales 15 more than w's
  const int most_row_warps =
      std::min(most_packed_warps(plan.row_tiles, plan.col_tiles) / 2, kMostRowWarps);
  const int halves = shape.halves ? 2 : 1;

  // All blocks read all of x for the columns that they compute, from L2. Clusters share rows of w
  // out among blocks until x is a minor part of what a block reads.
  int share = 0;
  for (const int cluster : {1, 2, 4}) {
    const int clusters = clusters_of(cluster, shape, device);
    if (cluster > 1) {
      const int wider = clusters == 0 ? 0 : ceil_div(shape.out, clusters);
      constexpr int kFewestStages = 4;  // of each block, if two slices are a stage
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

  // Few rows of w occupy more warps by sixteens.
  constexpr int kFewRowsOfW = 64;
  if (share * halves <= kFewRowsOfW) plan.row_tiles = 1;
  const int most_warps = most_packed_warps(plan.row_tiles, plan.col_tiles);
  const auto split_into = [&](int groups) {
    split_rows(plan, shape, groups);
    for (int warps = std::min(most_warps / plan.row_warps / 2 * 2, 8); warps >= 2; warps -= 2) {
      plan.column_warps = warps;
      lay_out(plan, shape, device);
      if (plan.stages >= 4) break;
    }
  };
  // More groups than rows of warps demand, if the sums of fewer leave no room for two stages.
  int groups = ceil_div(share * halves, 32 * most_row_warps);
  for (split_into(groups); plan.stages < 2 && groups < share;) split_into(++groups);
  return plan;
}

// The time that a block takes, in nanoseconds of an H200: what it reads from memory or, with x,
// from L2, or what its tensor cores multiply, whichever takes longest, and what its groups' ends
// take.
double wide_time(const PackedPlan& plan, const PackedShape& shape) {
  constexpr double kMemory = 32;  // bytes in a nanosecond
  constexpr double kL2 = 42;
  constexpr double kProduct = 1.1 / 64;  // of 64 x 16 by a row of x
  const double columns = static_cast<double>(plan.chunks) / plan.cluster * plan.chunk();
  const int slots = plan.group_rows * (shape.halves ? 2 : 1);
  const double w = columns * slots * plan.groups * shape.bits / 8;
  const double x = columns * plan.x_rows * 2 * plan.groups;
  const double products = columns / 16 * plan.groups * plan.slots() / 64 * plan.x_rows;
  const double ends = plan.groups * (plan.cluster > 1 ? 2500 : 1000);
  return std::max({w / kMemory, (w + x) / kL2, products * kProduct}) + ends;
}

PackedPlan plan_wide(const PackedShape& shape, const PackedDevice& device) {
  PackedPlan best{};
  double best_time = 0;
  const int halves = shape.halves ? 2 : 1;
  for (const int cluster : {1, 2, 4}) {
    const int clusters = clusters_of(cluster, shape, device);
    if (clusters == 0) continue;
    PackedPlan plan{};
    plan.row_tiles = 1;
    plan.slices = 2;
    plan.col_tiles = shape.rows <= 32 ? 4 : 8;
    plan.x_rows = 8 * plan.col_tiles;
    plan.cluster = cluster;
    plan.clusters = clusters;
    const int share = ceil_div(shape.out, clusters);
    const int warpgroups = most_packed_warps(plan.row_tiles, plan.col_tiles) / 4;
    const int tiles = ceil_div(share * halves, kPackedWideRows);
    for (int groups = ceil_div(tiles, warpgroups); groups <= share; ++groups) {
      split_rows(plan, shape, groups);
      for (int columns = std::max(1, warpgroups * 4 / plan.row_warps); columns >= 1; --columns) {
        plan.column_warps = columns;
        lay_out(plan, shape, device);
        if (plan.chunks >= plan.cluster && plan.stages >= 3) break;
      }
      if (plan.stages >= 2) break;
    }
    if (plan.stages < 2 || plan.chunks < plan.cluster) continue;
    const double time = wide_time(plan, shape);
    if (best.stages < 2 || time < best_time) best = plan, best_time = time;
  }
  return best;
}

}  // namespace

PackedPlan plan_packed_gemm(const PackedShape& shape, const PackedDevice& device) {
  return shape.rows <= kPackedFewRows ? plan_few(shape, device) : plan_wide(shape, device);
}

}  // namespace tandem::cuda
