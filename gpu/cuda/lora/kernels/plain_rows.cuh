// Single rows and weights, for the kernels that give each row of a step a block of its own.
#pragma once

#include "gpu/cuda/base/element.cuh"
#include "gpu/cuda/lora/kernels/stream.cuh"

namespace tandem::cuda {

inline constexpr int kPlainThreads = 256;

// Element number `element` of the matrix that begins at byte `begin`.
template <typename T, bool kPaged>
__device__ __forceinline__ float weight_at(const WeightBytes<kPaged>& bytes, std::uint64_t begin,
                                           std::int64_t element) {
  const std::uint64_t at = begin + static_cast<std::uint64_t>(element) * sizeof(T);
  return to_float(*reinterpret_cast<const T*>(bytes.at(at)));
}

// The slot of a position of LoraParams::rows; -1: it is in no segment. All kPlainThreads call it.
__device__ __forceinline__ int slot_of(const LoraParams& p, int position) {
  __shared__ int slot;
  if (threadIdx.x == 0) slot = -1;
  __syncthreads();
  for (int s = static_cast<int>(threadIdx.x); s < p.num_segments; s += kPlainThreads) {
    const LoraRows segment = p.segments[s];
    if (position >= segment.first && position < segment.first + segment.count) slot = segment.slot;
  }
  __syncthreads();
  return slot;
}

}  // namespace tandem::cuda
