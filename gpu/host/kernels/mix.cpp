// Attention's inner loops: the weighted sum of values, and the exponentials of the softmax.
#include "gpu/host/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/host/kernels/mix.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <limits>

#include "gpu/host/kernels/kernels.h"
#include "gpu/host/kernels/simd-inl.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::host::HWY_NAMESPACE {
namespace {

// The accumulators, `kCols` vectors of `kRows` rows, stay in registers over all tokens.
template <typename T, int kRows, int kCols>
HWY_INLINE void mix_block(const MixTile& tile, std::int64_t r, std::int64_t col) {
  const F32 d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T* HWY_RESTRICT v = static_cast<const T*>(tile.v) + col;
  const float* HWY_RESTRICT p = tile.p + r * tile.p_stride;
  float* HWY_RESTRICT acc = tile.acc + r * tile.acc_stride + col;
  VecF sums[kRows][kCols];
#pragma GCC unroll 8
  for (int a = 0; a < kRows; ++a) {
#pragma GCC unroll 8
    for (int c = 0; c < kCols; ++c) {
      sums[a][c] = hn::LoadU(d, acc + a * tile.acc_stride + c * lanes);
    }
  }
  const bool whole = col + kCols * lanes <= tile.d;
  for (std::int64_t t = 0; t < tile.tokens; ++t) {
    VecF values[kCols];
#pragma GCC unroll 8
    for (int c = 0; c < kCols; ++c) {
      const T* at = v + t * tile.v_stride + c * lanes;
      values[c] = whole ? load_f32(d, at)
                        : load_first(d, at, static_cast<std::size_t>(tile.d - col - c * lanes));
    }
#pragma GCC unroll 8
    for (int a = 0; a < kRows; ++a) {
      const VecF weight = hn::Set(d, p[a * tile.p_stride + t]);
#pragma GCC unroll 8
      for (int c = 0; c < kCols; ++c) sums[a][c] = hn::MulAdd(weight, values[c], sums[a][c]);
    }
  }
#pragma GCC unroll 8
  for (int a = 0; a < kRows; ++a) {
#pragma GCC unroll 8
    for (int c = 0; c < kCols; ++c) {
      hn::StoreU(sums[a][c], d, acc + a * tile.acc_stride + c * lanes);
    }
  }
}

template <typename T, int kRows>
HWY_INLINE void mix_rows(const MixTile& tile, std::int64_t r) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(F32()));
  std::int64_t col = 0;
  for (; col + 4 * lanes <= tile.d; col += 4 * lanes) mix_block<T, kRows, 4>(tile, r, col);
  for (; col < tile.d; col += lanes) mix_block<T, kRows, 1>(tile, r, col);
}

template <typename T>
void mix_typed(const MixTile& tile) {
  std::int64_t r = 0;
  for (; r + 4 <= tile.rows; r += 4) mix_rows<T, 4>(tile, r);
  for (; r < tile.rows; ++r) mix_rows<T, 1>(tile, r);
}

void mix_tile_simd(const MixTile& tile) {
  with_type(tile.dtype,
            [&](auto* type) { mix_typed<std::remove_pointer_t<decltype(type)>>(tile); });
}

void scale_row_simd(float* x, std::int64_t n, float factor) {
  const F32 d;
  const VecF factors = hn::Set(d, factor);
  for_each_vector(d, static_cast<std::size_t>(n), [&](std::size_t lanes, std::size_t i) {
    store_some(d, hn::Mul(load_some(d, x + i, lanes), factors), x + i, lanes);
  });
}

float exp_row_simd(float* x, std::int64_t n, float m) {
  const F32 d;
  const VecF shift = hn::Set(d, m);
  VecF sum = hn::Zero(d);
  for_each_vector(d, static_cast<std::size_t>(n), [&](std::size_t lanes, std::size_t i) {
    const VecF y = hn::Exp(d, hn::Sub(load_some(d, x + i, lanes), shift));
    store_some(d, y, x + i, lanes);
    sum = hn::Add(sum, lanes == hn::Lanes(d) ? y : hn::IfThenElseZero(hn::FirstN(d, lanes), y));
  });
  return sum_of(d, sum);
}

float max_row_simd(const float* x, std::int64_t n) {
  const F32 d;
  const VecF lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  VecF best = lowest;
  for_each_vector(d, static_cast<std::size_t>(n), [&](std::size_t lanes, std::size_t i) {
    VecF v = load_some(d, x + i, lanes);
    if (lanes != hn::Lanes(d)) v = hn::IfThenElse(hn::FirstN(d, lanes), v, lowest);
    best = hn::Max(best, hn::IfThenElse(hn::IsNaN(v), lowest, v));
  });
  return max_of(d, best);
}

}  // namespace
}  // namespace tandem::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "gpu/host/kernels/noted_rows.h"

namespace tandem::host {

HWY_EXPORT(mix_tile_simd);
HWY_EXPORT(scale_row_simd);
HWY_EXPORT(exp_row_simd);
HWY_EXPORT(max_row_simd);

void mix_tile(const MixTile& tile) {
  note_read_rows(tile.v, tile.tokens, size_of(tile.dtype), tile.v_stride, tile.d);
  note_read_rows(tile.p, tile.rows, sizeof(float), tile.p_stride, tile.tokens);
  note_write_rows(tile.acc, tile.rows, sizeof(float), tile.acc_stride, padded(tile.d));
  HWY_DYNAMIC_DISPATCH(mix_tile_simd)(tile);
}
void scale_row(float* x, std::int64_t n, float factor) {
  note_write_row(x, n, sizeof(float));
  HWY_DYNAMIC_DISPATCH(scale_row_simd)(x, n, factor);
}
float exp_row(float* x, std::int64_t n, float m) {
  note_write_row(x, n, sizeof(float));
  return HWY_DYNAMIC_DISPATCH(exp_row_simd)(x, n, m);
}
float max_row(const float* x, std::int64_t n) {
  note_read_row(x, n, sizeof(float));
  return HWY_DYNAMIC_DISPATCH(max_row_simd)(x, n);
}

}  // namespace tandem::host
#endif
