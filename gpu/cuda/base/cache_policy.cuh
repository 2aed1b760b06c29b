// What L2 does with the lines of a copy, as operands of its cache hint (sm_80 on).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tandem::cuda {

// For bytes that are read once, or by blocks that run at about the same time, and need no room in
// L2 afterwards: weights, keys and values. Without it keys and values push out what the next kernel
// reads again: steps take a hundredth longer.
__device__ __forceinline__ std::uint64_t evict_first_policy() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// For those that every block reads again.
__device__ __forceinline__ std::uint64_t evict_last_policy() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

}  // namespace tandem::cuda
