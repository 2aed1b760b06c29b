// Adds up the sums of a block's warps, and of a cluster's blocks, and stores what y wants of them.
#pragma once

#include <cstdint>

#include "gpu/cuda/base/cluster.cuh"
#include "gpu/cuda/base/element.cuh"
#include "gpu/cuda/elementwise/activation.cuh"
#include "gpu/cuda/gemm/packed/kernel/packed_share.cuh"

namespace tandem::cuda {

__device__ __forceinline__ float scale_at(const std::byte* values, DType dtype, std::int64_t i) {
  if (dtype == DType::f32) return reinterpret_cast<const float*>(values)[i];
  if (dtype == DType::f16) return to_float(reinterpret_cast<const __half*>(values)[i]);
  return to_float(reinterpret_cast<const __nv_bfloat16*>(values)[i]);
}

// A slot's scale of its whole row, and its bias. Weights, which are loaded before the sums are
// known.
struct SlotNumbers {
  float scale = 1;
  float bias = 0;
  template <typename Element>
  __device__ void load(const PackedParams& p, const PackedShare& share, int group, int slot) {
    const int up_slot = p.plan.slots() / 2;
    const bool is_up = p.swiglu && slot >= up_slot;
    const int column = is_up ? slot - up_slot : slot;
    if (column >= share.group_size(group)) return;
    const std::int64_t o = share.group_begin(group) + column;
    if (p.row_scales != nullptr) {
      const float value = scale_at(p.row_scales, p.scale_dtype, o + (is_up ? p.out : 0));
      scale = value * p.factor + p.summand;
    }
    if (p.bias != nullptr) bias = to_float(static_cast<const Element*>(p.bias)[o]);
  }
};

// A thread's part of a block's results: fours of neighbours in a row of y, of which blocks of a
// cluster have equal parts. The order of additions depends on the plan alone.
template <typename Element>
struct PackedFinish {
  int size, first, own;  // columns of the group; fours of them before the block's, and its own
  int t, quad;           // the next: row and number among the block's fours
  int step_t, step_quad;
  float old[4];  // y's, if it accumulates

  __device__ PackedFinish(const PackedParams& p, const PackedShare& share, int group, int thread,
                          int threads)
      : size(share.group_size(group)), t(p.rows), quad(0), step_t(0), step_quad(0), old{} {
    const int quads = (size + 3) / 4;
    const int shift = p.plan.cluster / 2;  // of 1, 2 or 4
    first = quads * share.rank >> shift;
    own = (quads * (share.rank + 1) >> shift) - first;
    if (own == 0) return;
    t = thread / own;
    quad = thread - t * own;
    step_t = threads / own;
    step_quad = threads - step_t * own;
  }
  __device__ void advance() {
    t += step_t;
    quad += step_quad;
    if (quad >= own) quad -= own, ++t;
  }
  __device__ std::int64_t place(const PackedParams& p, int begin) const {
    return t * p.y_stride + begin + (first + quad) * 4;
  }
  __device__ int count() const { return size - (first + quad) * 4; }  // from 1 to 4, or more

  template <typename Y>
  __device__ void load(const PackedParams& p, std::int64_t at) {
    const Y* const y = static_cast<const Y*>(p.y) + at;
    if (((at | p.y_stride) & 3) == 0 && p.y_is_aligned && count() >= 4) {
      const auto quad_of = *reinterpret_cast<const Vec<Y, 4>*>(y);
#pragma unroll
      for (int j = 0; j < 4; ++j) old[j] = to_float(quad_of.element[j]);
      return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j < count()) old[j] = to_float(y[j]);
    }
  }
  // Called before the sums are there, and once earlier kernels have ended.
  __device__ void load_old(const PackedParams& p, int begin) {
    if (!p.accumulate || t >= p.rows) return;
    if (p.y_is_f32) {
      load<float>(p, place(p, begin));
    } else {
      load<Element>(p, place(p, begin));
    }
  }
  template <typename Y>
  __device__ void store(const PackedParams& p, std::int64_t at, const float (&values)[4]) const {
    Y* const y = static_cast<Y*>(p.y) + at;
    Vec<Y, 4> rounded;
#pragma unroll
    for (int j = 0; j < 4; ++j) rounded.element[j] = from_float<Y>(values[j]);
    if (((at | p.y_stride) & 3) == 0 && p.y_is_aligned && count() >= 4) {
      *reinterpret_cast<Vec<Y, 4>*>(y) = rounded;
      return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j < count()) y[j] = rounded.element[j];
    }
  }

  // The sums of four neighbours, scaled. Reads of all blocks are in flight together: each takes
  // long.
  __device__ float4 add_up(const PackedPlan& plan, const float* sums, int slot) const {
    const int of_warp = 8 * plan.col_tiles * plan.sum_pitch();
    const float* from = sums + t * plan.sum_pitch() + slot;
    float4 sum{};
#pragma unroll 2
    for (int warp = 0; warp < plan.column_warps; ++warp, from += of_warp) {
      constexpr int kMostBlocks = 4;
      float4 of[kMostBlocks] = {};
      if (plan.cluster == 1) {
        of[0] = *reinterpret_cast<const float4*>(from);
      } else {
#pragma unroll
        for (int block = 0; block < kMostBlocks; ++block) {
          if (block < plan.cluster) of[block] = read_block(from, block);
        }
      }
#pragma unroll
      for (const float4& each : of) {
        sum.x += each.x, sum.y += each.y, sum.z += each.z, sum.w += each.w;
      }
    }
    const float4 scales = *reinterpret_cast<const float4*>(sums + plan.sum_count() + slot);
    return {sum.x * scales.x, sum.y * scales.y, sum.z * scales.z, sum.w * scales.w};
  }

  // Called once all sums of the block, or of all blocks of the cluster, are in shared memory.
  __device__ void run(const PackedParams& p, int begin, const float* sums) {
    const PackedPlan& plan = p.plan;
#pragma unroll 1
    while (t < p.rows) {
      const int slot = (first + quad) * 4;
      const float4 sum = add_up(plan, sums, slot);
      float values[4] = {sum.x, sum.y, sum.z, sum.w};
      if (p.swiglu) {
        const float4 up = add_up(plan, sums, plan.slots() / 2 + slot);
        const float ups[4] = {up.x, up.y, up.z, up.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float gate = to_float(from_float<Element>(values[j]));
          values[j] =
              (p.gelu ? gelu_tanh(gate) : silu(gate)) * to_float(from_float<Element>(ups[j]));
        }
      }
      if (p.bias != nullptr) {
        const float4 bias =
            *reinterpret_cast<const float4*>(sums + plan.sum_count() + plan.slots() + slot);
        values[0] += bias.x, values[1] += bias.y, values[2] += bias.z, values[3] += bias.w;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) values[j] += old[j];
      const PackedFinish here = *this;
      advance();
      load_old(p, begin);
      if (p.y_is_f32) {
        here.template store<float>(p, here.place(p, begin), values);
      } else {
        here.template store<Element>(p, here.place(p, begin), values);
      }
    }
  }
};

}  // namespace tandem::cuda
