#include "gpu/cuda/gemm/warpgroup/warpgroup_plan.h"

#include <algorithm>

namespace tandem::cuda {
namespace {

// A block with fewer rows of w reads more of x than two that share them.
constexpr int kRowsAlone = 64;
// Columns that are worth a partner: beneath them the ring holds all, and the sums are the work.
constexpr int kShortestShared = 1024;

constexpr int round_up(int value, int to) {
  return (value + to - 1) / to * to;
}

WarpgroupPlan plan_for(int rows, int in, int out, int cluster, int clusters, int shared_bytes) {
  WarpgroupPlan plan{};
  plan.unit = out % 2 == 0 ? 2 : 1;
  plan.cluster = cluster;
  plan.clusters = std::min(clusters, out / plan.unit);
  plan.units = out / plan.unit / plan.clusters;
  plan.units_left = out / plan.unit % plan.clusters;
  const int units = plan.units + (plan.units_left > 0 ? 1 : 0);
  plan.groups = (units * plan.unit + 2 * kWarpgroupMaxColumns - 1) / (2 * kWarpgroupMaxColumns);
  plan.group_rows = (units + plan.groups - 1) / plan.groups * plan.unit;
  plan.half = round_up((plan.group_rows + 1) / 2, 8);
  plan.columns =
      *std::ranges::find_if(kWarpgroupColumns, [&](int columns) { return columns >= plan.half; });
  plan.slabs = plan.columns <= 48 ? 2 : 1;
  plan.chunks = (in / kWarpgroupSlab + plan.slabs - 1) / plan.slabs;
  plan.x_rows = round_up(rows, 8);
  plan.x_slab_bytes = plan.x_rows * kWarpgroupSlabBytes;
  plan.w_slab_bytes = round_up(plan.group_rows, 8) * kWarpgroupSlabBytes;
  plan.stage_bytes = plan.slabs * (plan.x_slab_bytes + plan.w_slab_bytes);
  // How far products reach beyond the last stage, in padding.
  const int x_end = (plan.slabs - 1) * plan.x_slab_bytes + kWarpgroupTile * kWarpgroupSlabBytes;
  const int w_end = plan.slabs * plan.x_slab_bytes + (plan.slabs - 1) * plan.w_slab_bytes +
                    (plan.half + plan.columns) * kWarpgroupSlabBytes;
  const int tail = std::max({0, x_end - plan.stage_bytes, w_end - plan.stage_bytes});
  plan.most_tiles = (plan.half / 8 + cluster - 1) / cluster;
  // The partner's sums come while a slower block still reads its ring, and a group's while the next
  // one's stages do; those of the only group of a block find the ring empty.
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

WarpgroupPlan plan_warpgroup_gemm(int rows, int in, int out, const WarpgroupDevice& device) {
  if (out < kRowsAlone * device.processors && in >= kShortestShared && device.clusters_of_2 > 0) {
    const WarpgroupPlan shared =
        plan_for(rows, in, out, 2, device.clusters_of_2, device.shared_bytes);
    if (shared.groups == 1) return shared;
  }
  return plan_for(rows, in, out, 1, device.processors, device.shared_bytes);
}

bool warpgroup_gemm_takes(const GemmArgs& args) {
  const auto aligned = [](const TensorView& view) {
    return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 &&
           (view.rows() == 1 || view.stride[0] % 8 == 0);
  };
  return (args.x.dtype == DType::f16 || args.x.dtype == DType::bf16) && args.x.rows() > 0 &&
         args.x.rows() <= kWarpgroupMaxRows && args.x.cols() > 0 &&
         args.x.cols() % kWarpgroupSlab == 0 && aligned(args.x) && aligned(args.w) &&
         args.w.rows() > 0 && args.w.rows() < (1 << 26);
}

}  // namespace tandem::cuda
