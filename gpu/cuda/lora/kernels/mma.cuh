// Tensor core products and the loads for them, for bf16 and f16.
//
// One thread of a warp, with g = lane / 4 and t = lane % 4, supplies rows g and g + 8 of the left
// operand (tokens) and row g of the right one (weights), and gets columns 2t and 2t + 1 of rows g
// and g + 8 of the product. The k of an operand's element is free as long as both sides agree, so a
// thread takes neighbouring k: 16 bytes in one load instead of scattered pairs.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

namespace tandem::cuda {

__device__ __forceinline__ void mma_k16(__nv_bfloat16, float (&c)[4], unsigned a0, unsigned a1,
                                        unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma_k16(__half, float (&c)[4], unsigned a0, unsigned a1,
                                        unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma_k8(__nv_bfloat16, float (&c)[4], unsigned a0, unsigned a1,
                                       unsigned b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b0));
}
__device__ __forceinline__ void mma_k8(__half, float (&c)[4], unsigned a0, unsigned a1,
                                       unsigned b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

// kWords 4-byte words (4 * kWords bytes per thread): the elements of one row that a thread supplies
// to kWords / 2 products over 16 k, or to one over 8.
template <int kWords>
struct Words {
  unsigned w[kWords];
};

// c += left (rows g, g + 8) times right.
template <typename T, int kWords>
__device__ __forceinline__ void multiply(float (&c)[4], const Words<kWords>& row_g,
                                         const Words<kWords>& row_g8, const Words<kWords>& right) {
  if constexpr (kWords == 1) {
    mma_k8(T(), c, row_g.w[0], row_g8.w[0], right.w[0]);
  } else {
#pragma unroll
    for (int i = 0; i < kWords; i += 2) {
      mma_k16(T(), c, row_g.w[i], row_g8.w[i], row_g.w[i + 1], row_g8.w[i + 1], right.w[i],
              right.w[i + 1]);
    }
  }
}

// Loads activations, written by kernels that may still have been running when this one started.
__device__ __forceinline__ Words<4> load_activations(const void* p, bool ok) {
  Words<4> v{};
  asm volatile(
      "{\n.reg .pred q;\nsetp.ne.s32 q, %5, 0;\n"
      "@q ld.global.v4.u32 {%0,%1,%2,%3}, [%4];\n}"
      : "+r"(v.w[0]), "+r"(v.w[1]), "+r"(v.w[2]), "+r"(v.w[3])
      : "l"(p), "r"(static_cast<int>(ok)));
  return v;
}

__device__ __forceinline__ float2 unpack(__nv_bfloat16, unsigned w) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&w));
}
__device__ __forceinline__ float2 unpack(__half, unsigned w) {
  return __half22float2(*reinterpret_cast<const __half2*>(&w));
}
__device__ __forceinline__ unsigned pack(__nv_bfloat16, float x, float y) {
  const __nv_bfloat162 v = __floats2bfloat162_rn(x, y);
  return *reinterpret_cast<const unsigned*>(&v);
}
__device__ __forceinline__ unsigned pack(__half, float x, float y) {
  const __half2 v = __floats2half2_rn(x, y);
  return *reinterpret_cast<const unsigned*>(&v);
}

// Clamps a finite x to T's range; bf16 has float's range.
__device__ __forceinline__ float clamp_to(__nv_bfloat16, float x) {
  return x;
}
__device__ __forceinline__ float clamp_to(__half, float x) {
  return fabsf(x) > 65504.0F && !isinf(x) ? copysignf(65504.0F, x) : x;
}

// Limits for what a block prefetches into L2 before it reads it: more would be evicted again.
inline constexpr int kPrefetchColumns = 16384;    // elements of y
inline constexpr unsigned kManyTiles = 64;        // of eight rows, a pair counted once: no y
inline constexpr int kPrefetchBytes = 64 * 1024;  // of B

// Prefetches [p, p + bytes) into L2; both are multiples of 16. Only a hint.
__device__ __forceinline__ void prefetch_l2(const void* p, unsigned bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(bytes) : "memory");
#else
  for (unsigned i = 0; i < bytes; i += 128) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const std::byte*>(p) + i));
  }
#endif
}

}  // namespace tandem::cuda
