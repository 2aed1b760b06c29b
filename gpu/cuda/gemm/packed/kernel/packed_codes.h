// Codes of packed weights (gpu/cuda/packed/layout.h) as pairs of 16-bit floats, by shifts and masks
// alone.
#pragma once

#include <cstdint>

#include "gpu/host_and_device.h"

namespace tandem::cuda {

// The codes (s, p) of a word of 4 bits, pair 2 s + p: 128 + code in bf16, 1024 + code in f16.
// A mantissa of 7 bits holds 0 to 15 above 128 exactly.
constexpr std::uint32_t kBiased4Bf16 = 0x43004300U;
constexpr std::uint32_t kBiased4F16 = 0x64006400U;
TANDEM_HOST_DEVICE constexpr std::uint32_t biased_pair4(std::uint32_t word, int pair,
                                                        std::uint32_t bias) {
  return (word >> (4 * pair) & 0x000f000fU) | bias;
}

// The codes (p, 0) and (p, 1) of a word of FP8 e4m3: sign, exponent and fraction at the places that
// a wider format has for them, which makes a number 2^120 times too small in bf16, 2^8 in f16.
constexpr std::uint32_t kE4m3FactorBf16 = 0x7b807b80U;  // 2^120, twice
constexpr std::uint32_t kE4m3FactorF16 = 0x5c005c00U;   // 2^8, twice
TANDEM_HOST_DEVICE constexpr std::uint32_t small_e4m3_bf16(std::uint32_t word, int p) {
  const std::uint32_t high = p == 0 ? word << 8 : word;
  return (high >> 4 & 0x07f007f0U) | (high & 0x80008000U);
}
TANDEM_HOST_DEVICE constexpr std::uint32_t small_e4m3_f16(std::uint32_t word, int p) {
  const std::uint32_t high = p == 0 ? word << 8 : word;
  return (high >> 1 & 0x3f803f80U) | (high & 0x80008000U);
}

// Selectors of a byte permutation for the 8-bit codes (p, 0) and (p, 1) of a word.
// With 0x4b000000: 2^23 + code, a float.
TANDEM_HOST_DEVICE constexpr unsigned select_float(int p, int e) {
  return 0x7650U + static_cast<unsigned>(p + 2 * e);
}
// With 0x64646464: 1024 + code of both, in f16.
TANDEM_HOST_DEVICE constexpr unsigned select_halves(int p) {
  return 0x4040U | static_cast<unsigned>(p + 2) << 8 | static_cast<unsigned>(p);
}
constexpr unsigned kSelectHighHalves = 0x7632U;  // of two floats

}  // namespace tandem::cuda
