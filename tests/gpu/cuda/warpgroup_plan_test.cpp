// The work split of the GEMM for 33 to 64 rows; needs no GPU.
#include "gpu/cuda/gemm/warpgroup/warpgroup_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace tandem::cuda {
namespace {

// With an H100's properties.
WarpgroupDevice device_with(int processors, int clusters_of_2) {
  WarpgroupDevice device;
  device.supported = true;
  device.processors = processors;
  device.clusters_of_2 = clusters_of_2;
  device.shared_bytes = 227 * 1024;
  return device;
}

TEST(WarpgroupPlan, FitsTheDeviceForEveryShape) {
  for (const auto& [processors, clusters] : {std::pair{132, 66}, {132, 60}, {114, 0}, {1, 0}}) {
    const WarpgroupDevice device = device_with(processors, clusters);
    for (const int out : {1, 2, 7, 100, 131, 1000, 4096, 4097, 8448, 12288, 22016, 28672, 128256}) {
      for (const int in : {64, 192, 1024, 4096, 14336}) {
        for (const int rows : {1, 33, 48, 64}) {
          SCOPED_TRACE(fmt::format("{} processors, {} clusters, {} rows, in {}, out {}", processors,
                                   clusters, rows, in, out));
          const WarpgroupPlan plan = plan_warpgroup_gemm(rows, in, out, device);
          ASSERT_LE(plan.clusters, plan.cluster == 2 ? clusters : processors);
          EXPECT_TRUE(plan.cluster == 1 || plan.groups == 1);
          EXPECT_GE(plan.chunks, plan.cluster);
          EXPECT_GE(plan.stages, 2);
          EXPECT_LE(plan.shared_bytes, device.shared_bytes);
          EXPECT_TRUE(std::ranges::count(kWarpgroupColumns, plan.columns) == 1);
          EXPECT_GE(plan.columns, plan.half);
          EXPECT_LE(plan.group_rows, 2 * plan.half);
          // Every row of w belongs to a cluster, and every column of x to a stage.
          EXPECT_EQ((plan.units * plan.clusters + plan.units_left) * plan.unit, out);
          EXPECT_GE(plan.groups * plan.group_rows, plan.units * plan.unit);
          EXPECT_GE(plan.chunks * plan.slabs * kWarpgroupSlab, in);
          // The sums of an only group fit into its ring; those of several groups lie behind it.
          EXPECT_LE(plan.own_sums + 2 * plan.most_tiles * kWarpgroupTileBytes,
                    plan.groups == 1
                        ? plan.ring_bytes
                        : plan.shared_bytes - kWarpgroupAlignment - kWarpgroupBarrierBytes);
        }
      }
    }
  }
}

TEST(WarpgroupPlan, GivesEachWarpgroupAHalfOfWhatEndsInSwiglu) {
  const WarpgroupDevice device = device_with(132, 66);
  for (const int out : {1, 2, 7, 131, 4225, 11008, 14336, 17001, 34000}) {
    for (const int rows : {33, 64}) {
      SCOPED_TRACE(fmt::format("{} rows, out {}", rows, out));
      const WarpgroupPlan plan = plan_warpgroup_gemm(rows, 4096, out, device, GemmEnd::swiglu);
      EXPECT_EQ(plan.cluster, 1);
      EXPECT_GE(plan.stages, 2);
      EXPECT_LE(plan.shared_bytes, device.shared_bytes);
      EXPECT_LE(plan.group_rows, plan.half);
      EXPECT_LE(plan.half, plan.columns);
      EXPECT_GE(plan.w_slab_bytes, 2 * plan.half * kWarpgroupSlabBytes);
      EXPECT_EQ((plan.units * plan.clusters + plan.units_left) * plan.unit, out);
      EXPECT_GE(plan.groups * plan.group_rows, plan.units * plan.unit);
      EXPECT_LE(plan.own_sums + 2 * plan.most_tiles * kWarpgroupTileBytes,
                plan.groups == 1
                    ? plan.ring_bytes
                    : plan.shared_bytes - kWarpgroupAlignment - kWarpgroupBarrierBytes);
    }
  }
}

TEST(WarpgroupPlan, HasTwoBlocksShareWhatIsNarrowAndLong) {
  const WarpgroupDevice device = device_with(132, 66);
  EXPECT_EQ(plan_warpgroup_gemm(64, 4096, 4096, device).cluster, 2);
  EXPECT_EQ(plan_warpgroup_gemm(64, 14336, 4096, device).cluster, 2);
  EXPECT_EQ(plan_warpgroup_gemm(64, 4096, 12288, device).cluster, 1);
  EXPECT_EQ(plan_warpgroup_gemm(64, 512, 4096, device).cluster, 1);
  EXPECT_EQ(plan_warpgroup_gemm(64, 4096, 4096, device_with(132, 0)).cluster, 1);
}

TEST(WarpgroupPlan, HasWiderStagesWhereRowsAreFew) {
  const WarpgroupDevice device = device_with(132, 66);
  EXPECT_EQ(plan_warpgroup_gemm(64, 4096, 12288, device).slabs, 2);
  EXPECT_EQ(plan_warpgroup_gemm(64, 4096, 22016, device).slabs, 1);
}

}  // namespace
}  // namespace tandem::cuda
