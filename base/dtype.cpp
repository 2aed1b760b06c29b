#include "base/dtype.h"

#include <cstring>

#include "base/check.h"

namespace tandem {

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
  }
  return "?";
}

Result<DType> parse_dtype(std::string_view text) {
  std::string_view name = text;
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name == "f32" || name == "F32" || name == "float32" || name == "float") return DType::f32;
  if (name == "f16" || name == "F16" || name == "float16" || name == "half") return DType::f16;
  if (name == "bf16" || name == "BF16" || name == "bfloat16") return DType::bf16;
  return invalid("unknown data type '{}': f32, f16 or bf16 are supported", text);
}

namespace {

// Selecting with masks instead of branches lets loops of these conversions vectorise.
inline std::uint32_t select(bool condition, std::uint32_t yes, std::uint32_t no) {
  const std::uint32_t mask = 0U - std::uint32_t{condition};
  return (yes & mask) | (no & ~mask);
}

// Conversions of the three types under one name per direction. They are separate from the public
// functions, which the compiler may not inline in position-independent code.
inline float widen(float x) {
  return x;
}
inline float widen(bf16 x) {
  return to_float(x);
}

// IEEE binary16 without _Float16, which GCC 12 only has with SSE2 and clang-tidy 14 not at all.
// Avoids arithmetic on subnormals, which would cost a hundred cycles each.
inline float widen(f16 x) {
  constexpr std::uint32_t kRebase = (127U - 15U) << 23;
  constexpr std::uint32_t kInf = 0x7c00U << 13;
  constexpr std::uint32_t kSmallestNormal = 1U << 23;
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000U} << 16;
  const std::uint32_t rest = std::uint32_t{x.bits & 0x7fffU} << 13;
  const std::uint32_t normal = rest + kRebase;
  // A subnormal is its fraction times 2^-14: builds 2^-14 with the fraction appended, then
  // subtracts 2^-14.
  const float after_one = std::bit_cast<float>(normal + kSmallestNormal);
  const auto subnormal = std::bit_cast<std::uint32_t>(after_one - 0x1p-14F);
  const std::uint32_t finite = select(rest < kSmallestNormal, subnormal, normal);
  return std::bit_cast<float>(sign | select(rest >= kInf, normal + kRebase, finite));
}

template <typename To>
To narrow(float x) {
  return from_float<To>(x);
}
template <>
inline f16 narrow<f16>(float x) {
  constexpr std::uint32_t kSmallestNormal = 0x38800000U;  // 2^-14, as a float
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0xfffU + odd) >> 13;
  // Adding 0.5 to a subnormal leaves the rounded 10-bit fraction in the low bits. Values that are
  // subnormal even as floats become zero anyway and are not added.
  const bool is_tiny = magnitude < kSmallestNormal;
  const std::uint32_t addend = select(is_tiny && magnitude >= 0x00800000U, magnitude, 0);
  const auto sum = std::bit_cast<std::uint32_t>(std::bit_cast<float>(addend) + 0.5F);
  std::uint32_t rest = select(is_tiny, sum - 0x3f000000U, normal);
  rest = select(magnitude >= 0x477ff000U, 0x7c00U, rest);  // rounds to infinity
  rest = select(magnitude > 0x7f800000U, 0x7e00U, rest);   // NaN
  return {static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | rest)};
}

}  // namespace

float to_float(f16 x) {
  return widen(x);
}

template <>
f16 from_float<f16>(float x) {
  return narrow<f16>(x);
}

namespace {

template <typename From, typename To>
void convert_all(const void* source, void* target, std::size_t count) {
  const auto* in = static_cast<const From*>(source);
  auto* out = static_cast<To*>(target);
  for (std::size_t i = 0; i < count; ++i) out[i] = narrow<To>(widen(in[i]));
}

template <typename From>
void convert_from(const void* source, DType to, void* target, std::size_t count) {
  switch (to) {
    case DType::f32:
      return convert_all<From, float>(source, target, count);
    case DType::f16:
      return convert_all<From, f16>(source, target, count);
    case DType::bf16:
      return convert_all<From, bf16>(source, target, count);
    case DType::i32:
      break;
  }
  TANDEM_CHECK(false, "convert to {}", to_string(to));
}

}  // namespace

void convert(DType from, const void* source, DType to, void* target, std::size_t count) {
  if (from == to) {
    if (source != target) std::memcpy(target, source, count * size_of(from));
    return;
  }
  switch (from) {
    case DType::f32:
      return convert_from<float>(source, to, target, count);
    case DType::f16:
      return convert_from<f16>(source, to, target, count);
    case DType::bf16:
      return convert_from<bf16>(source, to, target, count);
    case DType::i32:
      break;
  }
  TANDEM_CHECK(false, "convert from {}", to_string(from));
}

}  // namespace tandem
