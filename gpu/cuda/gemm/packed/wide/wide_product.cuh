// The warpgroup product whose 64-row operand lies in registers; sm_90a.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace tandem::cuda {

#define TANDEM_REGISTERS_16          \
  "%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define TANDEM_SUMS_16                                                                            \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),    \
      "+f"(d[15])
#define TANDEM_REGISTERS_32                  \
  "%0, %1, %2, %3, %4, %5, %6, %7, "         \
  "%8, %9, %10, %11, %12, %13, %14, %15, "   \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define TANDEM_SUMS_32                                                                            \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),    \
      "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),  \
      "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),  \
      "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define TANDEM_WIDE_PRODUCT(n, type, registers, a0, a1, a2, a3, b_index, add_index, ...)         \
  asm volatile(                                                                                  \
      "{\n"                                                                                      \
      ".reg .pred add;\n"                                                                        \
      "setp.ne.u32 add, %" #add_index                                                            \
      ", 0;\n"                                                                                   \
      "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" registers "}, {%" #a0 \
      ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b_index                                              \
      ", add, 1, 1, 0;\n"                                                                        \
      "}\n"                                                                                      \
      : __VA_ARGS__                                                                              \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add))

// d [64, n] = (d +) a [64, 16] b [n, 16]^T by the four warps of a warpgroup, n = 2 x the size of d;
// asynchronous. Each warp has 16 rows; a and d lie in its lanes as those of the product of
// 16 x 8 x 16 do. `a` must stay untouched until the product has been waited for.
template <typename Element>
__device__ __forceinline__ void wide_product(float (&d)[16], const std::uint32_t (&a)[4],
                                             std::uint64_t b, unsigned add) {
  if constexpr (std::is_same_v<Element, __half>) {
    TANDEM_WIDE_PRODUCT(32, "f16", TANDEM_REGISTERS_16, 16, 17, 18, 19, 20, 21, TANDEM_SUMS_16);
  } else {
    TANDEM_WIDE_PRODUCT(32, "bf16", TANDEM_REGISTERS_16, 16, 17, 18, 19, 20, 21, TANDEM_SUMS_16);
  }
}
template <typename Element>
__device__ __forceinline__ void wide_product(float (&d)[32], const std::uint32_t (&a)[4],
                                             std::uint64_t b, unsigned add) {
  if constexpr (std::is_same_v<Element, __half>) {
    TANDEM_WIDE_PRODUCT(64, "f16", TANDEM_REGISTERS_32, 32, 33, 34, 35, 36, 37, TANDEM_SUMS_32);
  } else {
    TANDEM_WIDE_PRODUCT(64, "bf16", TANDEM_REGISTERS_32, 32, 33, 34, 35, 36, 37, TANDEM_SUMS_32);
  }
}

#undef TANDEM_WIDE_PRODUCT
#undef TANDEM_REGISTERS_16
#undef TANDEM_REGISTERS_32
#undef TANDEM_SUMS_16
#undef TANDEM_SUMS_32

}  // namespace tandem::cuda
