// The part of a product by a packed weight that a block computes, and its ring of stages.
#pragma once

#include <cstdint>

#include "gpu/cuda/base/async_copy.cuh"
#include "gpu/cuda/base/cache_policy.cuh"
#include "gpu/cuda/base/launch_order.cuh"
#include "gpu/cuda/gemm/packed/kernel/packed_maps.h"
#include "gpu/cuda/gemm/packed/kernel/packed_params.h"

namespace tandem::cuda {

// Plain arithmetic without divisions: until it is done nothing is fetched.
struct PackedShare {
  int rank;  // in the cluster
  int begin, count, groups, group_rows;
  int first_chunk, chunks;

  __device__ explicit PackedShare(const PackedParams& p)
      : groups(p.plan.groups), group_rows(p.plan.group_rows) {
    const PackedPlan& plan = p.plan;
    const int shift = plan.cluster / 2;  // of 1, 2 or 4
    const int cluster = static_cast<int>(blockIdx.x) >> shift;
    rank = static_cast<int>(blockIdx.x) & (plan.cluster - 1);
    begin = plan.share * cluster + min(cluster, plan.shares_left);
    count = plan.share + (cluster < plan.shares_left ? 1 : 0);
    first_chunk = plan.chunks * rank >> shift;
    chunks = (plan.chunks * (rank + 1) >> shift) - first_chunk;
  }
  // Columns of y; the last group may have fewer, or none.
  __device__ int group_begin(int group) const { return begin + min(count, group * group_rows); }
  __device__ int group_size(int group) const { return group_begin(group + 1) - group_begin(group); }
};

// Copies a box of a matrix to shared memory; its first element is at (row, group).
__device__ __forceinline__ void plane_copy(std::uint32_t to, const CUtensorMap* map, int row,
                                           int group, std::uint32_t barrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(row), "r"(group), "r"(barrier), "l"(policy)
      : "memory");
}

// Runs on the one thread that fills the ring.
__device__ __forceinline__ void produce(const PackedParams& p, const PackedMaps& maps,
                                        const PackedShare& share, std::uint32_t full,
                                        std::uint32_t empty, std::uint32_t ring) {
  const PackedPlan& plan = p.plan;
  const std::uint64_t once = evict_first_policy();
  const std::uint64_t again = evict_last_policy();
  const auto place = [&](int stage, int part) {
    return ring + static_cast<unsigned>(stage * plan.stage_bytes + part);
  };
  const int up_scales = plan.up_numbers * p.scale_bytes;
  const auto load_w = [&](int group, int chunk, int stage) {
    const std::uint32_t barrier = full + 8U * static_cast<unsigned>(stage);
    barrier_expect(barrier, static_cast<std::uint32_t>(plan.copied_bytes));
    const int slab = (share.first_chunk + chunk) * plan.slabs;
    const int scales = (share.first_chunk + chunk) * plan.scale_groups;
    int row = share.group_begin(group);
#pragma unroll 1
    for (int half = 0; half < (p.swiglu ? 2 : 1); ++half, row += p.out) {
      tensor_copy(place(stage, half * plan.up), &maps.w, row, slab, barrier, once);
      if (p.row_scales != nullptr) continue;
      const int from = row - row % kPackedScaleStep;
      plane_copy(place(stage, plan.scales + half * up_scales), &maps.scales, from, scales, barrier,
                 once);
      if (!p.zeros) continue;
      plane_copy(place(stage, plan.zeros + half * plan.up_numbers), &maps.zeros, from, scales,
                 barrier, once);
    }
  };
  const auto load_x = [&](int chunk, int stage) {
    tensor_copy(place(stage, plan.x), &maps.x, 0,
                (share.first_chunk + chunk) * (plan.chunk() / kTensorSlab),
                full + 8U * static_cast<unsigned>(stage), again);
  };
  const int ahead = min(share.chunks, plan.stages);
#pragma unroll 1
  for (int i = 0; i < ahead; ++i) load_w(0, i, i);
  wait_for_previous_kernels();
#pragma unroll 1
  for (int i = 0; i < ahead; ++i) load_x(i, i);
  int stage = ahead == plan.stages ? 0 : ahead;
  std::uint32_t round = ahead == plan.stages ? 1 : 0;
  int chunk = ahead;
#pragma unroll 1
  for (int group = 0; group < share.groups; ++group, chunk = 0) {
#pragma unroll 1
    for (; chunk < share.chunks; ++chunk) {
      // Acquires the consumers' arrivals of the previous round: the stage has been read. A barrier
      // counts as passed before its first round.
      barrier_wait(empty + 8U * static_cast<unsigned>(stage), (round & 1) ^ 1);
      load_w(group, chunk, stage);
      load_x(chunk, stage);
      if (++stage == plan.stages) stage = 0, ++round;
    }
  }
}

}  // namespace tandem::cuda
