// Thread block clusters (LaunchShape::cluster; sm_90 on): their barrier in two halves, and reads of
// another block's shared memory. Code for older GPUs has no clusters and must not call these
// functions.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tandem::cuda {

// The address, in block number `block` of the cluster, of the object at `local` in shared memory.
__device__ __forceinline__ std::uint32_t cluster_address(std::uint32_t local, int block) {
  std::uint32_t there = local;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(local), "r"(block));
#endif
  return there;
}

// Every thread of the cluster that has not exited must arrive, and waits where it depends on all
// having arrived. Writes of a thread before its arrival are then visible to all.
__device__ __forceinline__ void cluster_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
// For threads that wrote nothing but barriers already published by barrier_init_fence().
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

// Arrives at a barrier in shared memory (async_copy.cuh), of any block of the cluster: `barrier`
// comes from cluster_address(). Writes that the thread has seen are then visible to who waits for
// it by cluster_barrier_wait().
__device__ __forceinline__ void cluster_arrive_at(std::uint32_t barrier) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier)
               : "memory");
#endif
}
__device__ __forceinline__ void cluster_barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
#endif
}

// Reads from block `block` the value at the same shared-memory offset as `local`.
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
