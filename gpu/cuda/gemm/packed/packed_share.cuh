// The part of a product by a packed weight that a block computes, and its ring of stages.
#pragma once

#include <cstdint>

#include "gpu/cuda/base/async_copy.cuh"
#include "gpu/cuda/base/cache_policy.cuh"
#include "gpu/cuda/base/launch_order.cuh"
#include "gpu/cuda/gemm/packed/packed_maps.h"
#include "gpu/cuda/gemm/packed/packed_params.h"

namespace tandem::cuda {

struct PackedShare {
  int rank;  // in the cluster
  int begin, count, groups;
  int first_chunk, chunks;

  __device__ explicit PackedShare(const PackedParams& p) : groups(p.plan.groups) {
    const PackedPlan& plan = p.plan;
    const int cluster = static_cast<int>(blockIdx.x) / plan.cluster;
    rank = static_cast<int>(blockIdx.x) % plan.cluster;
    const auto out = static_cast<std::int64_t>(p.out);
    begin = static_cast<int>(out * cluster / plan.clusters);
    count = static_cast<int>(out * (cluster + 1) / plan.clusters) - begin;
    first_chunk = plan.chunks * rank / plan.cluster;
    chunks = plan.chunks * (rank + 1) / plan.cluster - first_chunk;
  }
  // Columns of y.
  __device__ int group_begin(int group) const { return begin + count * group / groups; }
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
  const auto load_w = [&](int i, int stage) {
    const std::uint32_t barrier = full + 8U * static_cast<unsigned>(stage);
    barrier_expect(barrier, static_cast<std::uint32_t>(plan.copied_bytes));
    const int chunk = share.first_chunk + i % share.chunks;
    const int first = share.group_begin(i / share.chunks);
    for (int half = 0; half < (p.swiglu ? 2 : 1); ++half) {
      const int row = first + half * p.out;
      tensor_copy(place(stage, half * plan.up), &maps.w, row, chunk * plan.slabs, barrier, once);
      if (p.row_scales != nullptr) continue;
      const int group = chunk * plan.scale_groups;
      plane_copy(place(stage, plan.scales + half * up_scales), &maps.scales, row, group, barrier,
                 once);
      if (!p.zeros) continue;
      plane_copy(place(stage, plan.zeros + half * plan.up_numbers), &maps.zeros, row, group,
                 barrier, once);
    }
  };
  const auto load_x = [&](int i, int stage) {
    const int chunk = share.first_chunk + i % share.chunks;
    tensor_copy(place(stage, plan.x), &maps.x, 0, chunk * (plan.chunk() / 64),
                full + 8U * static_cast<unsigned>(stage), again);
  };
  const int total = share.groups * share.chunks;
  const int ahead = min(total, plan.stages);
  for (int i = 0; i < ahead; ++i) load_w(i, i);
  wait_for_previous_kernels();
  for (int i = 0; i < ahead; ++i) load_x(i, i);
  int stage = 0;
  std::uint32_t round = 0;
  for (int i = ahead; i < total; ++i) {
    // Acquires the consumers' arrivals of the previous round: the stage has been read.
    barrier_wait(empty + 8U * static_cast<unsigned>(stage), round & 1);
    load_w(i, stage);
    load_x(i, stage);
    if (++stage == plan.stages) stage = 0, ++round;
  }
}

}  // namespace tandem::cuda
