// Loads and stores that convert between the element types and float vectors. Highway compiles this
// header, and the files that include it, once per instruction set; hence the unusual include guard.
#if defined(TANDEM_GPU_HOST_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_GPU_HOST_SIMD_INL_H_
#undef TANDEM_GPU_HOST_SIMD_INL_H_
#else
#define TANDEM_GPU_HOST_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::host::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VecF = hn::Vec<F32>;

// Loads a whole vector.
HWY_INLINE VecF load_f32(F32 d, const float* p) {
  return hn::LoadU(d, p);
}
HWY_INLINE VecF load_f32(F32 d, const bf16* p) {
  const hn::Rebind<std::uint16_t, F32> narrow;
  const hn::Repartition<std::uint32_t, F32> wide;
  const auto bits = hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}
HWY_INLINE VecF load_f32(F32 d, const f16* p) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = to_float(p[i]);
  return hn::Load(d, lanes);
#else
  const hn::Rebind<hwy::float16_t, F32> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(p)));
#endif
}

// Loads the first `count` elements, with zeros after them; reads nothing beyond.
template <typename T>
HWY_INLINE VecF load_first(F32 d, const T* p, std::size_t count) {
  if (count > hn::Lanes(d)) __builtin_unreachable();  // prevents a GCC warning of an overflow below
#if HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<T, float>) {
    return hn::MaskedLoad(hn::FirstN(d, count), d, p);
  } else if constexpr (std::is_same_v<T, bf16>) {
    const hn::Rebind<std::uint16_t, F32> narrow;
    const hn::Repartition<std::uint32_t, F32> wide;
    const auto bits = hn::MaskedLoad(hn::FirstN(narrow, count), narrow,
                                     reinterpret_cast<const std::uint16_t*>(p));
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
  }
#endif
  T lanes[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(lanes, p, count * sizeof(T));
  return load_f32(d, lanes);
}

HWY_INLINE void store_f32(F32 d, VecF v, float* p) {
  hn::StoreU(v, d, p);
}
HWY_INLINE void store_f32([[maybe_unused]] F32 d, VecF v, bf16* p) {
  const hn::Rebind<std::uint16_t, F32> narrow;
  const hn::Repartition<std::uint32_t, F32> wide;
  const hn::Repartition<std::int32_t, F32> wide_signed;
  const auto bits = hn::BitCast(wide, v);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(wide, 1));
  // Rounds to nearest even; a NaN keeps its high bits and becomes quiet.
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7fff))));
  const auto quiet = hn::Or(high, hn::Set(wide, 0x40));
  const auto is_nan = hn::RebindMask(wide, hn::IsNaN(v));
  const auto result = hn::IfThenElse(is_nan, quiet, rounded);
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(wide_signed, result)), narrow,
             reinterpret_cast<std::uint16_t*>(p));
}
HWY_INLINE void store_f32([[maybe_unused]] F32 d, VecF v, f16* p) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, lanes);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) p[i] = from_float<f16>(lanes[i]);
#else
  const hn::Rebind<hwy::float16_t, F32> narrow;
  hn::StoreU(hn::DemoteTo(narrow, v), narrow, reinterpret_cast<hwy::float16_t*>(p));
#endif
}

// Stores only the first `count` elements.
template <typename T>
HWY_INLINE void store_first(F32 d, VecF v, T* p, std::size_t count) {
  if (count > hn::Lanes(d)) __builtin_unreachable();
  T lanes[HWY_MAX_BYTES / sizeof(float)];
  store_f32(d, v, lanes);
  std::memcpy(p, lanes, count * sizeof(T));
}

HWY_INLINE float sum_of(F32 d, VecF v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}
HWY_INLINE float max_of(F32 d, VecF v) {
  return hn::GetLane(hn::MaxOfLanes(d, v));
}

// Calls body(lanes, i) for i in steps of a vector up to n; `lanes` is a full vector, or the rest at
// the end.
template <typename Body>
HWY_INLINE void for_each_vector(F32 d, std::size_t n, Body body) {
  const std::size_t step = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + step <= n; i += step) body(step, i);
  if (i < n) body(n - i, i);
}

template <typename T>
HWY_INLINE VecF load_some(F32 d, const T* p, std::size_t lanes) {
  return lanes == hn::Lanes(d) ? load_f32(d, p) : load_first(d, p, lanes);
}
template <typename T>
HWY_INLINE void store_some(F32 d, VecF v, T* p, std::size_t lanes) {
  if (lanes == hn::Lanes(d)) {
    store_f32(d, v, p);
  } else {
    store_first(d, v, p, lanes);
  }
}

// Calls body with a null pointer of the element type, so that one lambda serves all dtypes.
template <typename Body>
HWY_INLINE void with_type(DType dtype, Body body) {
  switch (dtype) {
    case DType::f32:
      return body(static_cast<float*>(nullptr));
    case DType::f16:
      return body(static_cast<f16*>(nullptr));
    case DType::bf16:
      return body(static_cast<bf16*>(nullptr));
    case DType::i32:
      return;
  }
}

}  // namespace tandem::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled per target
