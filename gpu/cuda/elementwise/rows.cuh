// Row access of the row-by-row kernels: V elements at a time (8, in 16-byte accesses; 4; or 1), as
// float; and sums over the threads that share a row.
#pragma once

#include <cstdint>

#include "base/tensor.h"
#include "gpu/cuda/base/element.cuh"

namespace tandem::cuda {

constexpr int kRowVector = 8;

template <typename T, int V>
using RowVec = Vec<T, (V * sizeof(T) < 16 ? V : static_cast<int>(16 / sizeof(T)))>;

template <int V, typename T>
__device__ __forceinline__ void load_row(const T* from, float (&to)[V]) {
  if constexpr (V == 1) {
    to[0] = to_float(*from);
  } else {
    constexpr int kPer = RowVec<T, V>::kSize;
#pragma unroll
    for (int part = 0; part < V / kPer; ++part) {
      const auto raw = reinterpret_cast<const RowVec<T, V>*>(from)[part];
#pragma unroll
      for (int i = 0; i < kPer; ++i) to[part * kPer + i] = to_float(raw.element[i]);
    }
  }
}

template <int V, typename T>
__device__ __forceinline__ void store_row(T* to, const float (&from)[V]) {
  if constexpr (V == 1) {
    *to = from_float<T>(from[0]);
  } else {
    constexpr int kPer = RowVec<T, V>::kSize;
#pragma unroll
    for (int part = 0; part < V / kPer; ++part) {
      RowVec<T, V> raw;
#pragma unroll
      for (int i = 0; i < kPer; ++i) raw.element[i] = from_float<T>(from[part * kPer + i]);
      reinterpret_cast<RowVec<T, V>*>(to)[part] = raw;
    }
  }
}

// The sum over a warp, in each of its lanes.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  return value;
}

// The sum over a block, in each of its threads, all of which call it. `sums` is shared memory of a
// value for each warp, which nothing else uses before the block's next barrier.
__device__ __forceinline__ float block_sum(float value, float* sums) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return warp_sum(lane < warps ? sums[lane] : 0.0F);
}

// True if every row (and head) begins at a multiple of 16 bytes.
inline bool rows_aligned(const TensorView& view) {
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  bool aligned = reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0;
  for (int i = 0; i + 1 < view.rank; ++i) aligned = aligned && view.stride[i] * size % 16 == 0;
  return aligned;
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace tandem::cuda
