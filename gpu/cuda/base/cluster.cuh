// Blocks that are placed together (LaunchShape::cluster; sm_90 on): their barrier in two halves,
// and a read of another block's shared memory. Code for older GPUs has no clusters and must not
// ask.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tandem::cuda {

// What lies at `local` of one's own shared memory, in that of block number `block` of the cluster.
__device__ __forceinline__ std::uint32_t cluster_address(std::uint32_t local, int block) {
  std::uint32_t there = local;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(local), "r"(block));
#endif
  return there;
}

// Every thread of the cluster that has not exited arrives, and waits where it must know that all
// have: what each wrote before it arrived is then seen by all.
__device__ __forceinline__ void cluster_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
// The same where nothing was written but barriers that barrier_init_fence() has made known.
__device__ __forceinline__ void cluster_arrive_relaxed() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// Of the same place in that block.
__device__ __forceinline__ float4 read_block(const float* local, int block) {
  float4 v{};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const auto here = static_cast<std::uint32_t>(__cvta_generic_to_shared(local));
  asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(cluster_address(here, block))
               : "memory");
#else
  v = *reinterpret_cast<const float4*>(local);
#endif
  return v;
}
__device__ __forceinline__ float2 read_block_pair(const float* local, int block) {
  float2 v{};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const auto here = static_cast<std::uint32_t>(__cvta_generic_to_shared(local));
  asm volatile("ld.shared::cluster.v2.f32 {%0,%1}, [%2];"
               : "=f"(v.x), "=f"(v.y)
               : "r"(cluster_address(here, block))
               : "memory");
#else
  v = *reinterpret_cast<const float2*>(local);
#endif
  return v;
}

}  // namespace tandem::cuda
