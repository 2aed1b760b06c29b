// Written without Highway, whose oldest supported version has no product of bf16 pairs.
#include "gpu/host/kernels/dot_bf16.h"

#include "base/check.h"
#include "gpu/host/kernels/noted_rows.h"

#if defined(__x86_64__)
// GCC 12 warns about the undefined operands of its own intrinsics (its bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#define TANDEM_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define TANDEM_AVX512_BF16_INLINE \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"), always_inline)) inline

namespace tandem::host {
namespace {

// Registers: sums of 4 rows of x and 6 of w, 4 of x and one of w: 29 of 32.
constexpr std::int64_t kRows = 4;
constexpr std::int64_t kOutputs = 6;
constexpr std::int64_t kPairs = 32;  // elements per vector
// Six rows of w of this length stay in the L1 cache while rows of x stream past. These come from
// the L2 cache, where kRowBlock of them stay while all of w streams past.
constexpr std::int64_t kChunk = 2048;
constexpr std::int64_t kRowBlock = 128;

template <int kR, int kO>
struct Sums {
  __m512 of[kR][kO];
};

template <int kR, int kO>
TANDEM_AVX512_BF16_INLINE void add_step(const DotBf16& p, const bf16* x, const bf16* w,
                                        __mmask32 mask, Sums<kR, kO>& sums) {
  __m512i rows[kR];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) rows[r] = _mm512_maskz_loadu_epi16(mask, x + r * p.x_stride);
#pragma GCC unroll 8
  for (int o = 0; o < kO; ++o) {
    const __m512i weights = _mm512_maskz_loadu_epi16(mask, w + o * p.w_stride);
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
      sums.of[r][o] = _mm512_dpbf16_ps(sums.of[r][o], reinterpret_cast<__m512bh>(rows[r]),
                                       reinterpret_cast<__m512bh>(weights));
    }
  }
}

// Computes elements [begin, end) of kR rows and kO outputs.
template <int kR, int kO>
TANDEM_AVX512_BF16_INLINE void dot_block(const DotBf16& p, std::int64_t row, std::int64_t output,
                                         std::int64_t begin, std::int64_t end) {
  Sums<kR, kO> sums;
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (int o = 0; o < kO; ++o) sums.of[r][o] = _mm512_setzero_ps();
  }
  const bf16* x = p.x + row * p.x_stride + begin;
  const bf16* w = p.w + output * p.w_stride + begin;
  std::int64_t left = end - begin;
  for (; left >= kPairs; left -= kPairs, x += kPairs, w += kPairs) {
    add_step(p, x, w, ~__mmask32{0}, sums);
  }
  if (left > 0) add_step(p, x, w, (__mmask32{1} << left) - 1, sums);
  float* const acc = p.acc + row * p.acc_stride + output;
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (int o = 0; o < kO; ++o) {
      float& target = acc[r * p.acc_stride + o];
      const float sum = _mm512_reduce_add_ps(sums.of[r][o]);
      target = begin == 0 ? sum : target + sum;
    }
  }
}

template <int kO>
TANDEM_AVX512_BF16_INLINE void dot_rows(const DotBf16& p, std::int64_t first, std::int64_t last,
                                        std::int64_t output, std::int64_t begin, std::int64_t end) {
  std::int64_t r = first;
  for (; r + kRows <= last; r += kRows) dot_block<kRows, kO>(p, r, output, begin, end);
  for (; r < last; ++r) dot_block<1, kO>(p, r, output, begin, end);
}

TANDEM_AVX512_BF16 void dot_all(const DotBf16& p) {
  for (std::int64_t first = 0; first < p.rows; first += kRowBlock) {
    const std::int64_t last = first + kRowBlock < p.rows ? first + kRowBlock : p.rows;
    std::int64_t begin = 0;
    do {  // also runs once for k = 0: empty sums are zero
      const std::int64_t end = begin + kChunk < p.k ? begin + kChunk : p.k;
      std::int64_t o = 0;
      for (; o + kOutputs <= p.outputs; o += kOutputs) {
        dot_rows<kOutputs>(p, first, last, o, begin, end);
      }
      for (; o < p.outputs; ++o) dot_rows<1>(p, first, last, o, begin, end);
      begin = end;
    } while (begin < p.k);
  }
}

}  // namespace

bool can_dot_bf16() {
  static const bool can =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512bf16") != 0;
  return can;
}

bool dot_bf16_is_faster() {
  static const bool is_faster = can_dot_bf16() && __builtin_cpu_is("amd") != 0;
  return is_faster;
}

void dot_bf16(const DotBf16& product) {
  note_matrix(product.w, product.outputs, sizeof(bf16), product.w_stride, product.k);
  note_read_rows(product.x, product.rows, sizeof(bf16), product.x_stride, product.k, kOfInputs);
  note_write_rows(product.acc, product.rows, sizeof(float), product.acc_stride, product.outputs);
  dot_all(product);
}

}  // namespace tandem::host

#else

namespace tandem::host {

bool can_dot_bf16() {
  return false;
}
bool dot_bf16_is_faster() {
  return false;
}
void dot_bf16(const DotBf16&) {
  TANDEM_CHECK(false, "this CPU multiplies no pairs of bf16");
}

}  // namespace tandem::host

#endif
