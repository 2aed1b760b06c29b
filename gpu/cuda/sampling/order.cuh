// The order of tokens as one number: larger logits first, ties by the lower id.
#pragma once

#include <cstdint>

namespace tandem::cuda {

// Larger keys come first. 0 is less than any token's key.
__device__ __forceinline__ std::uint64_t order_key(float logit, std::uint32_t id) {
  const std::uint32_t bits = __float_as_uint(logit + 0.0F);  // -0 becomes 0, its equal
  const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return (std::uint64_t{ordered} << 32) | (0xFFFFFFFFU - id);
}

__device__ __forceinline__ std::int32_t id_of(std::uint64_t key) {
  return static_cast<std::int32_t>(0xFFFFFFFFU - static_cast<std::uint32_t>(key));
}

__device__ __forceinline__ float logit_of(std::uint64_t key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return __uint_as_float((ordered & 0x80000000U) != 0 ? ordered & 0x7FFFFFFFU : ~ordered);
}

// NaN, the sign of a broken model or adapter, must neither win nor spoil the sums.
__device__ __forceinline__ float number_or_lowest(float logit) {
  return logit == logit ? logit : __uint_as_float(0xFF800000U);
}

}  // namespace tandem::cuda
