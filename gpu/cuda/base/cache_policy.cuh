// L2 eviction policies, used as operands of a copy's cache hint (sm_80 on).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tandem::cuda {

// For bytes that are read once, or by blocks that run at about the same time, and need no space in
// L2 afterwards: weights, keys and values. Without the hint, keys and values evict data that the
// next kernel reads again, and steps take 1 % longer.
__device__ __forceinline__ std::uint64_t evict_first_policy() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// For bytes that every block reads again.
__device__ __forceinline__ std::uint64_t evict_last_policy() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

}  // namespace tandem::cuda
