#include "engine/base/dtype.h"

#include <cstring>

#include "engine/base/check.h"

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

// IEEE binary16 without _Float16, which GCC 12 has only where SSE2 is and clang-tidy 14 not at all.
float to_float(f16 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000U} << 16;
  const std::uint32_t rest = std::uint32_t{x.bits & 0x7fffU} << 13;
  constexpr std::uint32_t kInf = 0x7c00U << 13;
  if (rest >= kInf) return std::bit_cast<float>(sign | rest | 0x7f800000U);
  // Scaling by 2^112 rebases the exponent and, being exact, turns subnormals into normals.
  const float scaled = std::bit_cast<float>(rest) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

template <>
f16 from_float<f16>(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const auto with_sign = [sign](std::uint32_t rest) {
    return f16{static_cast<std::uint16_t>(sign | rest)};
  };
  if (magnitude > 0x7f800000U) return with_sign(0x7e00U);   // NaN
  if (magnitude >= 0x477ff000U) return with_sign(0x7c00U);  // rounds to infinity
  if (magnitude < 0x38800000U) {
    // Subnormal: adding 0.5 leaves the rounded 10-bit fraction in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return with_sign(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U);
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  return with_sign((magnitude - 0x38000000U + 0xfffU + odd) >> 13);
}

namespace {

template <typename From, typename To>
void convert_all(const void* source, void* target, std::size_t count) {
  const auto* in = static_cast<const From*>(source);
  auto* out = static_cast<To*>(target);
  for (std::size_t i = 0; i < count; ++i) out[i] = from_float<To>(to_float(in[i]));
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
