// The dot-product tile: GEMV for few rows, LoRA's two products, attention scores.
#include "gpu/host/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/host/dot.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "gpu/host/kernels.h"
#include "gpu/host/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::host::HWY_NAMESPACE {
namespace {

// AVX-512 has 32 registers: 8 rows x 3 outputs of accumulators, 3 of weights and one of x. With 16
// registers 4 x 2 leaves room.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
constexpr int kMaxRows = 4;
constexpr int kWide = 2;
#else
constexpr int kMaxRows = 8;
constexpr int kWide = 3;
#endif
constexpr int kNarrowRows = kMaxRows / 2;  // up to here twice as many outputs fit

template <typename T, int kRows, int kOutputs>
HWY_INLINE void dot_block(const T* HWY_RESTRICT w, std::int64_t w_stride, std::int64_t k,
                          const float* HWY_RESTRICT x, std::int64_t x_stride,
                          float* HWY_RESTRICT acc, std::int64_t acc_stride) {
  const F32 d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  VecF sums[kRows][kOutputs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) sums[r][o] = hn::Zero(d);
  }
  const auto step = [&](std::int64_t i, const VecF(&weights)[kOutputs]) HWY_ATTR {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const VecF xs = hn::LoadU(d, x + r * x_stride + i);
#pragma GCC unroll 8
      for (int o = 0; o < kOutputs; ++o) sums[r][o] = hn::MulAdd(xs, weights[o], sums[r][o]);
    }
  };
  std::int64_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    VecF weights[kOutputs];
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) weights[o] = load_f32(d, w + o * w_stride + i);
    step(i, weights);
  }
  if (i < k) {
    VecF weights[kOutputs];
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) {
      weights[o] = load_first(d, w + o * w_stride + i, static_cast<std::size_t>(k - i));
    }
    step(i, weights);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) acc[r * acc_stride + o] = sum_of(d, sums[r][o]);
  }
}

template <typename T, int kOutputs>
HWY_INLINE void dot_rows(const DotTile& tile, std::int64_t output) {
  const T* w = static_cast<const T*>(tile.w) + output * tile.w_stride;
  std::int64_t r = 0;
  const auto run = [&]<int kRows>() HWY_ATTR {
    dot_block<T, kRows, kOutputs>(w, tile.w_stride, tile.k, tile.x + r * tile.x_stride,
                                  tile.x_stride, tile.acc + r * tile.acc_stride + output,
                                  tile.acc_stride);
    r += kRows;
  };
  while (r < tile.rows) {
    const std::int64_t left = tile.rows - r;
    if (left >= kMaxRows && kOutputs <= kWide) {
      run.template operator()<kMaxRows>();
    } else if (left >= kNarrowRows) {
      run.template operator()<kNarrowRows>();
    } else if (left >= 2) {
      run.template operator()<2>();
    } else {
      run.template operator()<1>();
    }
  }
}

template <typename T>
void dot_typed(const DotTile& tile) {
  constexpr int kMost = kWide == 3 ? 5 : 4;  // fits the registers beside kNarrowRows rows
  const bool narrow = tile.rows <= kNarrowRows;
  std::int64_t o = 0;
  if (narrow) {
    for (; o + kMost <= tile.outputs; o += kMost) dot_rows<T, kMost>(tile, o);
  } else {
    for (; o + kWide <= tile.outputs; o += kWide) dot_rows<T, kWide>(tile, o);
  }
  for (; o < tile.outputs; ++o) dot_rows<T, 1>(tile, o);
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
namespace tandem::host {

HWY_EXPORT(dot_tile_simd);
HWY_EXPORT(simd_name_simd);

void dot_tile(const DotTile& tile) {
  HWY_DYNAMIC_DISPATCH(dot_tile_simd)(tile);
}
const char* simd_name() {
  return HWY_DYNAMIC_DISPATCH(simd_name_simd)();
}

}  // namespace tandem::host
#endif
