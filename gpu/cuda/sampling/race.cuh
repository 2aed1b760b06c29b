// The race of exponential clocks (gpu/philox.h) over a part of a row. A double-precision logarithm
// for every token would cost more than reading the logits, so a single-precision one finds the
// tokens that may win, usually one, and only these are timed exactly.
#pragma once

#include <cstdint>

#include "gpu/philox.h"

namespace tandem::cuda {

// A token in the race with its exact rate; id -1: none.
struct Runner {
  double rate;
  std::int32_t id;
  float logit;
};

struct Faster {
  __device__ Runner operator()(const Runner& a, const Runner& b) const {
    if (b.id < 0) return a;
    if (a.id < 0) return b;
    if (a.rate != b.rate) return a.rate > b.rate ? a : b;
    return a.id < b.id ? a : b;
  }
};

// The bound on the relative error of quick_rate.
constexpr float kQuickRateError = 1e-5F;

// weight / -log(u) in single precision, from the first 32 bits of u where these suffice.
__device__ __forceinline__ float quick_rate(float weight, DrawKey key, std::uint32_t id) {
  constexpr std::uint32_t kEdge = 1U << 22;  // 2^-10: the bits cut off are below 2^-22 of it
  const std::uint64_t bits = key.bits(id);
  const auto first = static_cast<std::uint32_t>(bits >> 20);
  float rest = __uint2float_rn(~first) * 0x1p-32F;  // 1 - u: exact where u, near 1, is not
  float u = __uint2float_rn(first) * 0x1p-32F;
  if (first < kEdge || ~first < kEdge) {
    const std::uint64_t twice = 2 * bits + 1;  // u 2^53
    rest = __ull2float_rn((std::uint64_t{1} << 53) - twice) * 0x1p-53F;
    u = __ull2float_rn(twice) * 0x1p-53F;
  }
  // -log(1 - r) = r + r^2/2 + r^3/3 + ...; the next term is below 1e-6 of it.
  const float series =
      rest * (1 + rest * (1.0F / 2 +
                          rest * (1.0F / 3 + rest * (1.0F / 4 + rest * (1.0F / 5 + rest / 6)))));
  return __fdividef(weight, rest < 0.125F ? series : -__logf(u));
}

// Not inlined: the double-precision logarithm in every unrolled step of a loop that rarely needs it
// would not fit into the instruction cache.
__device__ __noinline__ inline Runner run_exactly(float weight, DrawKey key, std::int32_t id,
                                                  float logit) {
  return {race_rate(weight, key.uniform(static_cast<std::uint32_t>(id))), id, logit};
}

}  // namespace tandem::cuda
