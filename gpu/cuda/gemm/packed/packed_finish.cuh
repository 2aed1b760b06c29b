// Adds up the sums of a block's warps, and of a cluster's blocks, and stores what y wants of them.
#pragma once

#include <cstdint>

#include "gpu/cuda/base/cluster.cuh"
#include "gpu/cuda/base/element.cuh"
#include "gpu/cuda/elementwise/activation.cuh"
#include "gpu/cuda/gemm/packed/packed_share.cuh"

namespace tandem::cuda {

__device__ __forceinline__ float scale_at(const std::byte* values, DType dtype, std::int64_t i) {
  if (dtype == DType::f32) return reinterpret_cast<const float*>(values)[i];
  if (dtype == DType::f16) return to_float(reinterpret_cast<const __half*>(values)[i]);
  return to_float(reinterpret_cast<const __nv_bfloat16*>(values)[i]);
}

__device__ __forceinline__ float read_block_float(const float* local, int block) {
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];"
               : "=f"(v)
               : "r"(cluster_address(shared_address(local), block))
               : "memory");
  return v;
}

// Called by `threads` threads once all sums [column_warps, 8 col_tiles, pitch] of the block, or of
// all blocks of the cluster, are in shared memory. Blocks of a cluster finish equal parts of the
// columns of y. The order of additions depends on the plan alone.
template <typename Element>
__device__ __forceinline__ void finish(const PackedParams& p, const PackedShare& share, int group,
                                       const float* sums, int thread, int threads) {
  const PackedPlan& plan = p.plan;
  const int size = share.group_size(group);
  const int first = size * share.rank / plan.cluster;
  const int columns = size * (share.rank + 1) / plan.cluster - first;
  const int pitch = plan.sum_pitch();
  const int of_warp = 8 * plan.col_tiles * pitch;
  const int up_slot = 16 * plan.row_warps;
  for (int i = thread; i < columns * p.rows; i += threads) {
    const int t = i / columns;
    const int slot = first + i % columns;
    const std::int64_t o = share.group_begin(group) + slot;
    const auto sum_of = [&](int at, std::int64_t row) {
      const float* const from = sums + t * pitch + at;
      float sum = 0;
      for (int warp = 0; warp < plan.column_warps; ++warp) {
        if (plan.cluster == 1) sum += from[warp * of_warp];
        for (int block = 0; block < plan.cluster && plan.cluster > 1; ++block) {
          sum += read_block_float(from + warp * of_warp, block);
        }
      }
      if (p.row_scales == nullptr) return sum;
      return sum * (scale_at(p.row_scales, p.scale_dtype, row) * p.factor + p.summand);
    };
    float value = sum_of(slot, o);
    if (p.swiglu) {
      const auto halve = [](float sum) { return to_float(from_float<Element>(sum)); };
      const float gate = halve(value);
      const float up = halve(sum_of(up_slot + slot, p.out + o));
      value = (p.gelu ? gelu_tanh(gate) : silu(gate)) * up;
    }
    if (p.bias != nullptr) value += to_float(static_cast<const Element*>(p.bias)[o]);
    const std::int64_t at = t * p.y_stride + o;
    if (p.y_is_f32) {
      float& y = static_cast<float*>(p.y)[at];
      y = p.accumulate ? y + value : value;
    } else {
      Element& y = static_cast<Element*>(p.y)[at];
      y = from_float<Element>(p.accumulate ? to_float(y) + value : value);
    }
  }
}

}  // namespace tandem::cuda
