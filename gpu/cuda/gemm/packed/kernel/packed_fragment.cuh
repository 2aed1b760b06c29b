// Codes as operands of the tensor cores' product of 16 x 8 x 16: small integers or e4m3 numbers,
// which bf16 and f16 hold exactly. Requires sm_90.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "gpu/cuda/base/element.cuh"
#include "gpu/cuda/gemm/packed/kernel/packed_codes.h"
#include "gpu/cuda/gemm/packed/kernel/packed_plan.h"

namespace tandem::cuda {

template <typename Element>
constexpr bool kIsHalf = std::is_same_v<Element, __half>;

template <typename Element>
__device__ __forceinline__ std::uint32_t subtract_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  if constexpr (kIsHalf<Element>) {
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  } else {
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  }
  return d;
}
template <typename Element>
__device__ __forceinline__ std::uint32_t multiply_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  if constexpr (kIsHalf<Element>) {
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  } else {
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  }
  return d;
}

__device__ __forceinline__ std::uint32_t word_of(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// biased_pair4() in two instructions: the compiler takes another one if both constants are known.
__device__ __forceinline__ std::uint32_t fast_biased_pair4(std::uint32_t word, int pair,
                                                           std::uint32_t bias) {
  std::uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;"  // (a & b) | c
      : "=r"(d)
      : "r"(word >> (4 * pair)), "n"(0x000f000f), "r"(bias));
  return d;
}

// Each has: kBits; Zero, what is subtracted from a code; kParts, the numbers whose sum is a code's;
// and fragment(): of one row and the unit u of 32 columns, a[part][2 s + p] = the columns
// 16 s + 8 p + 2 (lane % 4) + {0, 1}. `piece`: the thread's 16 bytes of 64 of the row: the block,
// or with 8 bits half of it. `table`: the address of the lane's first entry in a codebook's table.
template <typename T>
struct AffineCodes4 {
  using Element = T;
  using Zero = std::uint32_t;
  static constexpr int kBits = 4;
  static constexpr bool kHasZeros = true;
  static constexpr int kParts = 1;
  static constexpr std::uint32_t kBias = kIsHalf<T> ? kBiased4F16 : kBiased4Bf16;

  static __device__ __forceinline__ Zero zero_of(int zero) {
    return kBias + static_cast<unsigned>(zero) * 0x00010001U;
  }
  static __device__ __forceinline__ void fragment(const uint4& piece, int u, Zero zero,
                                                  std::uint32_t, std::uint32_t (&a)[1][4]) {
    const std::uint32_t word = word_of(piece, u);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[0][i] = subtract_pairs<T>(fast_biased_pair4(word, i, kBias), zero);
  }
};

template <typename T>
struct AffineCodes8 {
  using Element = T;
  using Zero = std::conditional_t<kIsHalf<T>, std::uint32_t, float>;
  static constexpr int kBits = 8;
  static constexpr bool kHasZeros = true;
  static constexpr int kParts = 1;

  static __device__ __forceinline__ Zero zero_of(int zero) {
    if constexpr (kIsHalf<T>) {
      return kBiased4F16 + static_cast<unsigned>(zero) * 0x00010001U;
    } else {
      return __uint_as_float(0x4b000000U + static_cast<unsigned>(zero));  // 2^23 + zero
    }
  }
  static __device__ __forceinline__ void fragment(const uint4& piece, int u, Zero zero,
                                                  std::uint32_t, std::uint32_t (&a)[1][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t word = word_of(piece, u % 2 * 2 + i / 2);
      if constexpr (kIsHalf<T>) {
        a[0][i] = subtract_pairs<T>(__byte_perm(word, 0x64646464U, select_halves(i % 2)), zero);
      } else {
        float code[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const unsigned bits = __byte_perm(word, 0x4b000000U, select_float(i % 2, e));
          code[e] = __uint_as_float(bits) - zero;  // an integer from -256 to 255
        }
        a[0][i] =
            __byte_perm(__float_as_uint(code[0]), __float_as_uint(code[1]), kSelectHighHalves);
      }
    }
  }
};

template <typename T>
struct E4m3Codes {
  using Element = T;
  using Zero = std::uint32_t;
  static constexpr int kBits = 8;
  static constexpr bool kHasZeros = false;
  static constexpr int kParts = 1;

  static __device__ __forceinline__ Zero zero_of(int) { return 0; }
  static __device__ __forceinline__ void fragment(const uint4& piece, int u, Zero, std::uint32_t,
                                                  std::uint32_t (&a)[1][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t word = word_of(piece, u % 2 * 2 + i / 2);
      a[0][i] = kIsHalf<T> ? multiply_pairs<T>(small_e4m3_f16(word, i % 2), kE4m3FactorF16)
                           : multiply_pairs<T>(small_e4m3_bf16(word, i % 2), kE4m3FactorBf16);
    }
  }
};

// The same, too small by kFactor kXFactor: few rows of x are multiplied by kXFactor, and sums by
// kFactor, in place of every code. Neither makes a number of bf16 or of float overflow or vanish
// whose magnitude is below 2^66 and, of products, above 2^-66.
template <typename T>
struct SmallE4m3Codes : E4m3Codes<T> {
  static constexpr std::uint32_t kXFactor = kIsHalf<T> ? 0 : 0x5d805d80U;  // 2^60, twice; 0: 1
  static constexpr float kFactor = kIsHalf<T> ? 0x1p8F : 0x1p60F;

  static __device__ __forceinline__ void fragment(const uint4& piece, int u, std::uint32_t,
                                                  std::uint32_t, std::uint32_t (&a)[1][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t word = word_of(piece, u % 2 * 2 + i / 2);
      a[0][i] = kIsHalf<T> ? small_e4m3_f16(word, i % 2) : small_e4m3_bf16(word, i % 2);
    }
  }
};

// The factors that codes of few rows leave to x and to the sums.
template <typename Codes>
constexpr std::uint32_t kXFactorOf = 0;
template <typename T>
constexpr std::uint32_t kXFactorOf<SmallE4m3Codes<T>> = SmallE4m3Codes<T>::kXFactor;
template <typename Codes>
constexpr float kFactorOf = 1;
template <typename T>
constexpr float kFactorOf<SmallE4m3Codes<T>> = SmallE4m3Codes<T>::kFactor;

// Numbers of a codebook, as a 16-bit float and the rest, another one: exact to 2^-17 (f16: 2^-22).
// A byte, two codes, is the index of two tables [256][32] of 4 bytes: both codes' floats, and both
// rests. Each lane has a column of its own, so that reads conflict in no bank. (A table of 8 bytes
// for both would take half the reads, but as many moves, since an operand's registers are
// consecutive.)
template <typename T>
struct CodebookCodes {
  using Element = T;
  using Zero = std::uint32_t;
  static constexpr int kBits = 4;
  static constexpr bool kHasZeros = false;
  static constexpr int kParts = 2;

  static __device__ __forceinline__ void fill(const float* codebook, Vec<T, 2>* tables, int thread,
                                              int threads) {
    constexpr int kEntries = kPackedTableBytes / 8;
    for (int i = thread; i < kEntries; i += threads) {
      const int byte = i / 32;
      const float numbers[2] = {codebook[byte % 16], codebook[byte / 16]};
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const T rounded = from_float<T>(numbers[e]);
        tables[i].element[e] = rounded;
        tables[kEntries + i].element[e] = from_float<T>(numbers[e] - to_float(rounded));
      }
    }
  }
  static __device__ __forceinline__ Zero zero_of(int) {
    return 0;
  }
  static __device__ __forceinline__ void fragment(const uint4& piece, int u, Zero,
                                                  std::uint32_t table, std::uint32_t (&a)[2][4]) {
    const std::uint32_t word = word_of(piece, u);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t at = table + (word >> (8 * i) & 255U) * 128;
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a[0][i]) : "r"(at));
      asm volatile("ld.shared.u32 %0, [%1 + %2];"
                   : "=r"(a[1][i])
                   : "r"(at), "n"(kPackedTableBytes / 2));
    }
  }
};

// Four 8 x 8 matrices of 16-bit elements: lane 8 i + r gives the address of row r of matrix i and
// gets its elements (lane / 4, 2 (lane % 4) + {0, 1}).
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// d = a b, and no sum before it.
template <typename Element>
__device__ __forceinline__ void first_16x8x16(float (&d)[4], std::uint32_t a0, std::uint32_t a1,
                                              std::uint32_t a2, std::uint32_t a3, std::uint32_t b0,
                                              std::uint32_t b1) {
  if constexpr (kIsHalf<Element>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%10, %10, %10, %10};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.0F));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%10, %10, %10, %10};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.0F));
  }
}

}  // namespace tandem::cuda
