#include "gpu/cuda/gemm/warpgroup/warpgroup_plan.h"

#include <algorithm>

namespace tandem::cuda {
namespace {

// With fewer rows of w than this, a single block reads more of x than two that share it.
constexpr int kRowsAlone = 64;
// The minimum of inner columns for two blocks: below it the ring holds all, and the sums dominate.
constexpr int kShortestShared = 1024;

constexpr int round_up(int value, int to) {
  return (value + to - 1) / to * to;
}

WarpgroupPlan plan_for(int rows, int in, int out, int cluster, int clusters, int shared_bytes,
                       GemmEnd end = GemmEnd::store) {
  const bool halves = end != GemmEnd::store;
  WarpgroupPlan plan{};
  plan.unit = out % 2 == 0 ? 2 : 1;
  plan.cluster = cluster;
  plan.clusters = std::min(clusters, out / plan.unit);
  plan.units = out / plan.unit / plan.clusters;
  plan.units_left = out / plan.unit % plan.clusters;
  const int units = plan.units + (plan.units_left > 0 ? 1 : 0);
  const int most = kWarpgroupMaxColumns * (halves ? 1 : 2);  // per group
  plan.groups = (units * plan.unit + most - 1) / most;
  plan.group_rows = (units + plan.groups - 1) / plan.groups * plan.unit;
  plan.half = round_up(halves ? plan.group_rows : (plan.group_rows + 1) / 2, 8);
  plan.columns =
      *std::ranges::find_if(kWarpgroupColumns, [&](int columns) { return columns >= plan.half; });
  plan.slabs = plan.columns <= 48 ? 2 : 1;
  plan.chunks = (in / kWarpgroupSlab + plan.slabs - 1) / plan.slabs;
  plan.x_rows = round_up(rows, 8);
  plan.x_slab_bytes = plan.x_rows * kWarpgroupSlabBytes;
  plan.w_slab_bytes = (halves ? 2 * plan.half : round_up(plan.group_rows, 8)) * kWarpgroupSlabBytes;
  plan.stage_bytes = plan.slabs * (plan.x_slab_bytes + plan.w_slab_bytes);
  // How far products reach, in padding, beyond the last stage.
  const int x_end = (plan.slabs - 1) * plan.x_slab_bytes + kWarpgroupTile * kWarpgroupSlabBytes;
  const int w_end = plan.slabs * plan.x_slab_bytes + (plan.slabs - 1) * plan.w_slab_bytes +
                    (plan.half + plan.columns) * kWarpgroupSlabBytes;
  const int tail = std::max({0, x_end - plan.stage_bytes, w_end - plan.stage_bytes});
  plan.most_tiles = (plan.half / 8 + cluster - 1) / cluster;
  // The partner's sums arrive while a slower block still reads its ring, and a group's sums while
  // the next group's stages arrive, so these need extra space. A block's only group finds the ring
  // empty.
  const int sums =
      plan.cluster > 1 || plan.groups > 1 ? 2 * plan.most_tiles * kWarpgroupTileBytes : 0;
  const int fixed = kWarpgroupAlignment + kWarpgroupBarrierBytes + std::max(tail, sums);
  plan.stages = std::min((shared_bytes - fixed) / plan.stage_bytes, kWarpgroupMaxStages);
  plan.ring_bytes = plan.stages * plan.stage_bytes;
  plan.own_sums = plan.groups > 1 ? plan.ring_bytes : 0;
  plan.shared_bytes = fixed + plan.ring_bytes;
  return plan;
}

}  // namespace

WarpgroupPlan plan_warpgroup_gemm(int rows, int in, int out, const WarpgroupDevice& device,
                                  GemmEnd end) {
  if (end != GemmEnd::store) {
    return plan_for(rows, in, out, 1, device.processors, device.shared_bytes, end);
  }
  if (out < kRowsAlone * device.processors && in >= kShortestShared && device.clusters_of_2 > 0) {
    const WarpgroupPlan shared =
        plan_for(rows, in, out, 2, device.clusters_of_2, device.shared_bytes);
    if (shared.groups == 1) return shared;
  }
  return plan_for(rows, in, out, 1, device.processors, device.shared_bytes);
}

bool warpgroup_gemm_takes(const GemmArgs& args) {
  return has_few_rows(args, kWarpgroupMaxRows);
}

bool warpgroup_gemm_ends_in_swiglu(const GemmArgs& args, const WarpgroupDevice& device) {
  return warpgroup_gemm_takes(args) &&
         plan_warpgroup_gemm(static_cast<int>(args.x.rows()), static_cast<int>(args.x.cols()),
                             static_cast<int>(args.w.rows()), device)
                 .cluster == 1;
}

}  // namespace tandem::cuda
