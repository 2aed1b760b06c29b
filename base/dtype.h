// Element types of weights, activations and step metadata, and scalar conversions between them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace tandem {

enum class DType : std::uint8_t { f32, f16, bf16, i32 };

constexpr std::size_t size_of(DType dtype) {
  return dtype == DType::f32 || dtype == DType::i32 ? 4 : 2;
}
std::string_view to_string(DType dtype);
// Accepts "f32", "bf16", "float32", "bfloat16", "torch.float16", "F16" and the like.
Result<DType> parse_dtype(std::string_view text);

// Only for storage: arithmetic uses float.
struct bf16 {
  std::uint16_t bits;
};
struct f16 {
  std::uint16_t bits;
};
static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2);

constexpr float to_float(float x) {
  return x;
}
constexpr float to_float(bf16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}
float to_float(f16 x);

template <typename T>
T from_float(float x);
template <>
constexpr float from_float<float>(float x) {
  return x;
}
// Rounds to nearest even; a NaN stays a NaN.
template <>
constexpr bf16 from_float<bf16>(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}
template <>
f16 from_float<f16>(float x);

template <typename T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<f16> = DType::f16;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;

// Converts `count` elements of floating types. Source and target must not overlap unless they have
// the same dtype and address. Vectorised by the compiler; single-threaded.
void convert(DType from, const void* source, DType to, void* target, std::size_t count);

}  // namespace tandem
