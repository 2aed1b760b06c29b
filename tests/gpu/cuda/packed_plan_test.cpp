// The work split of the products by packed weights; needs no GPU.
#include "gpu/cuda/gemm/packed/kernel/packed_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "gpu/cuda/gemm/packed/kernel/packed_places.h"

namespace tandem::cuda {
namespace {

// With an H100's properties.
PackedDevice device_with(int processors, int clusters_of_2, int clusters_of_4) {
  return {true, true, processors, 227 * 1024, {clusters_of_2, clusters_of_4}};
}

template <typename Body>
void for_each_plan(Body&& body) {
  for (const PackedDevice& device :
       {device_with(132, 66, 32), device_with(132, 60, 28), device_with(1, 0, 0)}) {
    for (const int out : {16, 112, 1024, 4096, 4608, 12288, 28672, 32000, 37888, 57344, 128256}) {
      for (const int in : {128, 256, 512, 1024, 4096, 11008, 14336}) {
        for (const int rows : {1, 5, 8, 9, 16, 17, 32, 33, 64}) {
          for (const auto& [bits, group] :
               {std::pair{4, 32}, {4, 64}, {4, 128}, {4, 0}, {8, 32}, {8, 128}, {8, 0}}) {
            if (in % (1024 / bits) != 0) continue;  // not whole lines
            for (const bool halves : {false, true}) {
              const PackedShape shape{rows,      in,     halves ? out / 2 : out,
                                      bits,      group,  group == 32 ? 4 : 2,
                                      group > 0, halves, bits == 4 && group == 64};
              SCOPED_TRACE(fmt::format("{} processors, {} rows, in {}, out {}, {} bits by {}{}",
                                       device.processors, rows, in, out, bits, group,
                                       halves ? ", halves" : ""));
              body(shape, device, plan_packed_gemm(shape, device));
              if (testing::Test::HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(PackedPlan, FitsTheDeviceForEveryShape) {
  for_each_plan([](const PackedShape& shape, const PackedDevice& device, const PackedPlan& plan) {
    ASSERT_GE(plan.stages, 2);
    EXPECT_LE(plan.stages, kPackedMaxStages);
    EXPECT_LE(plan.shared_bytes, device.shared_bytes);
    EXPECT_EQ(plan.is_wide(), shape.rows > kPackedFewRows);
    EXPECT_LE(plan.clusters * plan.cluster, device.processors);
    EXPECT_LE(plan.clusters, shape.out);
    EXPECT_GE(plan.chunks, plan.cluster);
    const int warps = plan.row_warps * plan.column_warps;
    EXPECT_LE(warps, most_packed_warps(plan.row_tiles, plan.col_tiles));
    EXPECT_EQ(plan.column_warps * plan.slices % 2, 0);
    EXPECT_EQ(plan.row_warps % (plan.is_wide() ? 4 : 1), 0);
    if (shape.halves) {
      EXPECT_EQ(plan.slots() / 2 % 16, 0);
    }
    EXPECT_EQ(plan.share * plan.clusters + plan.shares_left, shape.out);
    EXPECT_GE(plan.groups * plan.group_rows, plan.share + (plan.shares_left > 0 ? 1 : 0));
    // Every column of y has a slot, every row of x a tile, and every column of x a stage.
    EXPECT_GE(plan.groups * plan.group_rows * plan.clusters, shape.out);
    EXPECT_GE(plan.slots(), plan.group_rows * (shape.halves ? 2 : 1));
    EXPECT_GE(plan.col_tiles * 8, shape.rows);
    EXPECT_GE(plan.chunks * plan.chunk(), shape.in);
    // The limits of a copy: 256 per dimension, and 16 bytes.
    EXPECT_LE(std::max({plan.group_rows, plan.scale_rows, plan.scale_groups}), 256);
    EXPECT_EQ(plan.scale_rows % kPackedScaleStep, 0);
    EXPECT_GE(plan.scale_rows, plan.group_rows + kPackedScaleStep - 1);
    EXPECT_EQ(plan.scale_groups * shape.group, shape.group == 0 ? 0 : plan.chunk());
    EXPECT_LE(plan.sums + plan.sum_bytes(),
              plan.shared_bytes - plan.table_bytes - kPackedAlignment - kPackedBarrierBytes);
    // The rows of a warp's last slots, in the last stage.
    EXPECT_LE((plan.stages - 1) * plan.stage_bytes + (shape.halves ? plan.up : 0) +
                  ((plan.slabs - 1) * plan.group_rows + plan.slots() / (shape.halves ? 2 : 1)) *
                      kPackedLineBytes,
              plan.shared_bytes - plan.table_bytes - kPackedAlignment - kPackedBarrierBytes);
  });
}

TEST(PackedPlan, LaysPartsOfAStageOneAfterAnother) {
  for_each_plan([](const PackedShape& shape, const PackedDevice&, const PackedPlan& plan) {
    const int w = plan.slabs * plan.group_rows * kPackedLineBytes;
    const int x = plan.chunk() * 2 * plan.x_rows;
    const int numbers = plan.scale_groups * plan.scale_rows;
    const int up = shape.halves ? plan.up_numbers : 0;
    EXPECT_LE(w, plan.up);
    EXPECT_LE((shape.halves ? plan.up : 0) + w, plan.x);
    EXPECT_LE(plan.x + x, plan.scales);
    EXPECT_LE(numbers, plan.up_numbers);
    EXPECT_LE(plan.scales + (up + numbers) * shape.scale_bytes, plan.zeros);
    EXPECT_LE(plan.zeros + (shape.zeros ? up + numbers : 0), plan.stage_bytes);
    EXPECT_EQ((plan.up | plan.x | plan.stage_bytes) % kPackedAlignment, 0);
    EXPECT_EQ((plan.scales | plan.up_numbers | plan.zeros) % 128, 0);
  });
}

TEST(PackedPlan, KeepsXASmallPartOfWhatBlocksRead) {
  const PackedDevice device = device_with(132, 66, 32);
  const auto cluster = [&](int rows, int in, int out) {
    return plan_packed_gemm({rows, in, out, 4, 128, 2, false, false, false}, device).cluster;
  };
  EXPECT_EQ(cluster(1, 4096, 4096), 1);
  EXPECT_EQ(cluster(16, 4096, 4096), 2);
  EXPECT_EQ(cluster(16, 4096, 12288), 1);
}

// Reads of 16 bytes by the eight lanes of a quarter of a warp touch all 32 banks once.
TEST(PackedPlaces, SpreadsAQuarterWarpOverAllBanks) {
  for (const int bits : {4, 8}) {
    for (const int rows : {1, 8, 13}) {
      const PackedShape shape{rows, 4096, 12288, bits, 128, 2, false, false, false};
      const PackedPlan plan = plan_packed_gemm(shape, device_with(132, 66, 32));
      for (int warp = 0; warp < plan.row_warps * plan.column_warps; ++warp) {
        for (int part = 0; part < 4; ++part) {
          for (int quarter = 0; quarter < 4; ++quarter) {
            std::set<unsigned> w;
            std::set<unsigned> x;
            std::set<unsigned> x_offsets;
            for (int lane = quarter * 8; lane < quarter * 8 + 8; ++lane) {
              const PackedPlaces places(plan, bits, false, 1, warp % plan.row_warps,
                                        warp / plan.row_warps, lane, 0, 0);
              w.insert(places.w[part / 2] / 16 % 8);
              x.insert(places.x[part % 2] / 16 % 8);
              x_offsets.insert(places.x[part % 2]);
            }
            EXPECT_EQ(w.size(), 8U);
            // Lanes that repeat a row of x read the same bytes, which costs nothing.
            EXPECT_EQ(x.size(), x_offsets.size());
          }
        }
      }
    }
  }
}

// Every lane finds the line and the 16 bytes that the copy engine put there.
TEST(PackedPlaces, FindsItsRowsInSwizzledLines) {
  for (const int bits : {4, 8}) {
    for (const bool halves : {false, true}) {
      const PackedShape shape{3, 4096, 11008, bits, 128, 2, true, halves, false};
      const PackedPlan plan = plan_packed_gemm(shape, device_with(132, 66, 32));
      for (int warp = 0; warp < plan.row_warps * plan.column_warps; ++warp) {
        const int row_warp = warp % plan.row_warps;
        const int slice = warp / plan.row_warps;
        for (int lane = 0; lane < 32; ++lane) {
          const PackedPlaces places(plan, bits, halves, 1, row_warp, slice, lane, 0, 0);
          // 32 columns of x are half a line, of which matrix lane / 8 is the lane's 16 bytes.
          for (int u = 0; u < 4; ++u) {
            const int row = std::min(lane % 8, plan.x_rows - 1);
            EXPECT_EQ(
                (places.x[u / 2] ^ static_cast<unsigned>(u % 2 * 64)) -
                    static_cast<unsigned>(plan.x),
                swizzled((slice * 128 + u * 32) / 64 * plan.x_rows + row, u % 2 * 4 + lane / 8));
          }
          for (int part = 0; part < 4; ++part) {
            const int slot = row_warp * 32 + part * 8 + row_of_lane(lane);
            const bool is_up = halves && slot >= 16 * plan.row_warps;
            const int row = is_up ? slot - 16 * plan.row_warps : slot;
            const unsigned from = places.w[part / 2] + static_cast<unsigned>(part % 2 * 1024) -
                                  static_cast<unsigned>(is_up ? plan.up : 0);
            // Bytes of the row's part of the stage: 64 for 128 columns of 4 bits.
            const int byte = slice * 16 * bits + lane % 4 * 16;
            for (int next = 0; next < bits / 4; ++next) {
              const int line = (byte + 64 * next) / 128 * plan.group_rows + row;
              EXPECT_EQ(from ^ static_cast<unsigned>(64 * next),
                        swizzled(line, (byte + 64 * next) % 128 / 16));
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::cuda
