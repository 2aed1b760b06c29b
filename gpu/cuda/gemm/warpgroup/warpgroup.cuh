// Wrappers of the warpgroup (four-warp) tensor core product and of cluster operations; sm_90a.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace tandem::cuda {

// A 16-bit operand in shared memory, its inner dimension contiguous: groups of 8 rows, each 1024
// bytes with the copy engine's 128-byte swizzle, `group_bytes` apart. To move on by 16 columns, add
// kOperandColumns16; to move to another place of the same layout, add its distance / 16.
__device__ __forceinline__ std::uint64_t operand(std::uint32_t address, std::uint32_t group_bytes) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kUnused = std::uint64_t{1}
                                    << 16;  // a stride that swizzled layouts do not use
  return kSwizzle128 | std::uint64_t{group_bytes / 16} << 32 | kUnused | address / 16;
}
constexpr std::uint64_t kOperandColumns16 = 2;

// Required before the first product, and before one that adds to registers written by other code.
__device__ __forceinline__ void warpgroup_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Closes a batch of products.
__device__ __forceinline__ void warpgroup_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most `kPending` batches are unfinished: the earlier ones have read their operands.
template <int kPending>
__device__ __forceinline__ void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving accesses to `d` across a wait.
template <int kCount>
__device__ __forceinline__ void warpgroup_hold(float (&d)[kCount]) {
#pragma unroll
  for (float& v : d) asm volatile("" : "+f"(v)::"memory");
}

#define TANDEM_WGMMA_R3              \
  "%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define TANDEM_WGMMA_R5 TANDEM_WGMMA_R3 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TANDEM_WGMMA_R11                     \
  TANDEM_WGMMA_R5                            \
  ", %24, %25, %26, %27, %28, %29, %30, %31" \
  ", %32, %33, %34, %35, %36, %37, %38, %39" \
  ", %40, %41, %42, %43, %44, %45, %46, %47"
#define TANDEM_WGMMA_R15                     \
  TANDEM_WGMMA_R11                           \
  ", %48, %49, %50, %51, %52, %53, %54, %55" \
  ", %56, %57, %58, %59, %60, %61, %62, %63"
#define TANDEM_WGMMA_D8(i)                                                            \
  "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), "+f"(d[(i) + 4]), \
      "+f"(d[(i) + 5]), "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define TANDEM_WGMMA(n, type, registers, a_index, b_index, ...)                      \
  asm volatile(                                                                      \
      "{\n"                                                                          \
      ".reg .pred add;\n"                                                            \
      "setp.eq.u32 add, 0, 0;\n"                                                     \
      "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" registers \
      "}, %" #a_index ", %" #b_index                                                 \
      ", add, 1, 1, 0, 0;\n"                                                         \
      "}\n"                                                                          \
      : __VA_ARGS__                                                                  \
      : "l"(a), "l"(b))
#define TANDEM_WGMMA_SHAPE(n, registers, a_index, b_index, ...)                      \
  template <typename Element>                                                        \
  __device__ __forceinline__ void warpgroup_mma(float(&d)[(n) / 2], std::uint64_t a, \
                                                std::uint64_t b) {                   \
    if constexpr (std::is_same_v<Element, __half>) {                                 \
      TANDEM_WGMMA(n, "f16", registers, a_index, b_index, __VA_ARGS__);              \
    } else {                                                                         \
      TANDEM_WGMMA(n, "bf16", registers, a_index, b_index, __VA_ARGS__);             \
    }                                                                                \
  }

// d [64, n] += a [64, 16] b [n, 16]^T, n = 2 x the size of d, by the four warps of a warpgroup;
// asynchronous. A thread's d[4 j + 2 h + e] is row 16 (warp % 4) + lane / 4 + 8 h, column
// 8 j + lane % 4 * 2 + e.
TANDEM_WGMMA_SHAPE(32, TANDEM_WGMMA_R3, 16, 17, TANDEM_WGMMA_D8(0), TANDEM_WGMMA_D8(8))
TANDEM_WGMMA_SHAPE(48, TANDEM_WGMMA_R5, 24, 25, TANDEM_WGMMA_D8(0), TANDEM_WGMMA_D8(8),
                   TANDEM_WGMMA_D8(16))
TANDEM_WGMMA_SHAPE(96, TANDEM_WGMMA_R11, 48, 49, TANDEM_WGMMA_D8(0), TANDEM_WGMMA_D8(8),
                   TANDEM_WGMMA_D8(16), TANDEM_WGMMA_D8(24), TANDEM_WGMMA_D8(32),
                   TANDEM_WGMMA_D8(40))
TANDEM_WGMMA_SHAPE(128, TANDEM_WGMMA_R15, 64, 65, TANDEM_WGMMA_D8(0), TANDEM_WGMMA_D8(8),
                   TANDEM_WGMMA_D8(16), TANDEM_WGMMA_D8(24), TANDEM_WGMMA_D8(32),
                   TANDEM_WGMMA_D8(40), TANDEM_WGMMA_D8(48), TANDEM_WGMMA_D8(56))

#undef TANDEM_WGMMA_SHAPE
#undef TANDEM_WGMMA
#undef TANDEM_WGMMA_D8
#undef TANDEM_WGMMA_R15
#undef TANDEM_WGMMA_R11
#undef TANDEM_WGMMA_R5
#undef TANDEM_WGMMA_R3

// Waits until kThreads threads of the block, in whole warps, have called this.
template <int kThreads>
__device__ __forceinline__ void meet() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

__device__ __forceinline__ void store_shared(std::uint32_t address, float x, float y, float z,
                                             float w) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(x), "f"(y), "f"(z),
               "f"(w)
               : "memory");
}

// Sends 16 bytes to another block's shared memory, counted by a barrier of that block; both
// addresses come from cluster_address().
__device__ __forceinline__ void cluster_send(std::uint32_t to, std::uint32_t barrier, float x,
                                             float y, float z, float w) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(to),
      "f"(x), "f"(y), "f"(z), "f"(w), "r"(barrier)
      : "memory");
}

}  // namespace tandem::cuda
