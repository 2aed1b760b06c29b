// The dot-product tile: GEMV for few rows, LoRA's two products, and attention scores.
#include "gpu/host/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/host/kernels/dot.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>

#include "gpu/host/kernels/kernels.h"
#include "gpu/host/kernels/simd-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::host::HWY_NAMESPACE {
namespace {

// A call in the inner loop would spill every accumulator.
#ifndef TANDEM_INLINE
#define TANDEM_INLINE __attribute__((always_inline))
#endif

// AVX-512 has 32 registers: 8 rows x 3 outputs of accumulators, 3 of weights and one of x. With 16
// registers, 4 x 2 accumulators leave room for the operands.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
constexpr int kMaxRows = 4;
constexpr int kWide = 2;
#else
constexpr int kMaxRows = 8;
constexpr int kWide = 3;
#endif
constexpr int kNarrowRows = kMaxRows / 2;  // up to this number of rows, twice as many outputs fit

// totals[r] = the sum of the lanes of sums[r][o]. Eight sums together take 25 instructions; one by
// one they would take about a hundred, a fifth of the time of a chunk.
template <int kRows, int kOutputs>
HWY_INLINE void sum_rows(const VecF (&sums)[kRows][kOutputs], int o, float* totals) {
  const F32 d;
#if HWY_TARGET == HWY_AVX3
  if constexpr (kRows == 8) {
    const auto halves = [&](int r) TANDEM_INLINE {  // [row r: 8 partial sums | row r + 1: 8]
      return hn::Add(hn::ConcatLowerLower(d, sums[r + 1][o], sums[r][o]),
                     hn::ConcatUpperUpper(d, sums[r + 1][o], sums[r][o]));
    };
    const auto blocks = [&](VecF a, VecF b) TANDEM_INLINE {  // rows a0, b0, a1, b1: 4 each
      return hn::Add(hn::OddEvenBlocks(b, a), hn::SwapAdjacentBlocks(hn::OddEvenBlocks(a, b)));
    };
    const VecF low = blocks(halves(0), halves(2));
    const VecF high = blocks(halves(4), halves(6));
    const VecF pairs =
        hn::Add(hn::InterleaveLower(d, low, high), hn::InterleaveUpper(d, low, high));
    HWY_ALIGN float lanes[16];
    hn::Store(hn::Add(pairs, hn::Shuffle1032(pairs)), d, lanes);
    constexpr int kLaneOf[8] = {0, 8, 4, 12, 1, 9, 5, 13};
    for (int r = 0; r < 8; ++r) totals[r] = lanes[kLaneOf[r]];
    return;
  }
#endif
  for (int r = 0; r < kRows; ++r) totals[r] = sum_of(d, sums[r][o]);
}

// The elements of a row of x that one pass processes: eight such rows stay in the L1 cache.
constexpr std::int64_t kChunk = 1024;

// Adds to acc (in the first pass: sets it to) the products over elements [begin, end).
template <typename T, int kRows, int kOutputs>
HWY_INLINE void dot_block(const DotTile& tile, std::int64_t row, std::int64_t output,
                          std::int64_t begin, std::int64_t end) {
  const F32 d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t w_stride = tile.w_stride;
  const std::int64_t x_stride = tile.x_stride;
  const T* HWY_RESTRICT w = static_cast<const T*>(tile.w) + output * w_stride;
  const float* HWY_RESTRICT x = tile.x + row * x_stride;
  VecF sums[kRows][kOutputs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) sums[r][o] = hn::Zero(d);
  }
  const auto step = [&](std::int64_t at, const VecF(&weights)[kOutputs]) TANDEM_INLINE {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const VecF xs = hn::LoadU(d, x + r * x_stride + at);
#pragma GCC unroll 8
      for (int o = 0; o < kOutputs; ++o) sums[r][o] = hn::MulAdd(xs, weights[o], sums[r][o]);
    }
  };
  std::int64_t i = begin;
  const auto whole_step = [&](std::int64_t at) TANDEM_INLINE {
    VecF weights[kOutputs];
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) weights[o] = load_f32(d, w + o * w_stride + at);
    step(at, weights);
  };
  // Prefetching 512 bytes ahead by hand raises one row from 78 to 90 % of the memory bandwidth.
  // With many rows a chunk is too short for that, and there is time to fetch the next outputs'
  // weights.
  constexpr bool kManyRows = kRows > kNarrowRows;
  constexpr std::int64_t kAhead = 512 / sizeof(T);
  for (; i + 2 * lanes <= end; i += 2 * lanes) {
    if (kOutputs > 1) {
#pragma GCC unroll 8
      for (int o = 0; o < kOutputs; ++o) {
        hwy::Prefetch(w + (kManyRows ? o + kOutputs : o) * w_stride + i + (kManyRows ? 0 : kAhead));
      }
    }
    whole_step(i);
    whole_step(i + lanes);
  }
  for (; i + lanes <= end; i += lanes) whole_step(i);
  if (i < end) {
    VecF weights[kOutputs];
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) {
      weights[o] = load_first(d, w + o * w_stride + i, static_cast<std::size_t>(end - i));
    }
    step(i, weights);
  }
  float* HWY_RESTRICT acc = tile.acc + row * tile.acc_stride + output;
#pragma GCC unroll 8
  for (int o = 0; o < kOutputs; ++o) {
    float totals[kRows];
    sum_rows<kRows, kOutputs>(sums, o, totals);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      float& target = acc[r * tile.acc_stride + o];
      target = begin == 0 ? totals[r] : target + totals[r];
    }
  }
}

// Computes all outputs for rows [row, row + kRows), kWidth at a time.
template <typename T, int kRows, int kWidth>
HWY_INLINE void dot_outputs(const DotTile& tile, std::int64_t row, std::int64_t begin,
                            std::int64_t end) {
  std::int64_t o = 0;
  for (; o + kWidth <= tile.outputs; o += kWidth) {
    dot_block<T, kRows, kWidth>(tile, row, o, begin, end);
  }
  for (; o < tile.outputs; ++o) dot_block<T, kRows, 1>(tile, row, o, begin, end);
}

// Computes the rows left after whole groups, all together, since each group reads the weights
// again.
template <typename T, int kRows>
HWY_INLINE void dot_last_rows(const DotTile& tile, std::int64_t row, std::int64_t begin,
                              std::int64_t end) {
  constexpr int kMost = kWide == 3 ? 5 : 4;  // fits the registers beside kNarrowRows rows
  if constexpr (kRows > 0) {
    if (tile.rows - row == kRows) {
      dot_outputs<T, kRows,
                  kRows <= kNarrowRows ? kMost
                                       : (kRows == kNarrowRows + 1 && kWide == 3 ? 4 : kWide)>(
          tile, row, begin, end);
    } else {
      dot_last_rows<T, kRows - 1>(tile, row, begin, end);
    }
  }
}

template <typename T>
void dot_typed(const DotTile& tile) {
  const std::int64_t chunk = tile.rows > kNarrowRows ? kChunk : std::max<std::int64_t>(tile.k, 1);
  std::int64_t begin = 0;
  do {
    const std::int64_t end = std::min(tile.k, begin + chunk);
    std::int64_t r = 0;
    for (; r + kMaxRows <= tile.rows; r += kMaxRows) {
      dot_outputs<T, kMaxRows, kWide>(tile, r, begin, end);
    }
    dot_last_rows<T, kMaxRows - 1>(tile, r, begin, end);
    begin = end;
  } while (begin < tile.k);
}

void dot_tile_simd(const DotTile& tile) {
  with_type(tile.dtype,
            [&](auto* type) { dot_typed<std::remove_pointer_t<decltype(type)>>(tile); });
}

const char* simd_name_simd() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace
}  // namespace tandem::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "gpu/host/kernels/noted_rows.h"

namespace tandem::host {

HWY_EXPORT(dot_tile_simd);
HWY_EXPORT(simd_name_simd);

void dot_tile(const DotTile& tile) {
  note_matrix(tile.w, tile.outputs, size_of(tile.dtype), tile.w_stride, tile.k);
  note_read_rows(tile.x, tile.rows, sizeof(float), tile.x_stride, padded(tile.k), kOfInputs);
  note_write_rows(tile.acc, tile.rows, sizeof(float), tile.acc_stride, tile.outputs);
  HWY_DYNAMIC_DISPATCH(dot_tile_simd)(tile);
}
const char* simd_name() {
  return HWY_DYNAMIC_DISPATCH(simd_name_simd)();
}

}  // namespace tandem::host
#endif
