// The random numbers of sampling, identical on every device. Philox4x32-10 is the counter-based
// generator of Salmon et al. (SC 2011): a keyed bijection of the counter, so a draw depends only on
// (seed, position).
#pragma once

#include <cmath>
#include <cstdint>

#include "gpu/host_and_device.h"

namespace tandem {

struct PhiloxWords {
  std::uint32_t word[4];

  friend bool operator==(const PhiloxWords&, const PhiloxWords&) = default;
};

struct PhiloxKey {
  std::uint32_t word[2];
};

TANDEM_HOST_DEVICE constexpr PhiloxWords philox4x32(PhiloxWords counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter.word[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.word[1] ^ key.word[0],
                static_cast<std::uint32_t>(b),
                static_cast<std::uint32_t>(a >> 32) ^ counter.word[3] ^ key.word[1],
                static_cast<std::uint32_t>(a)}};
    key.word[0] += 0x9E3779B9U;
    key.word[1] += 0xBB67AE85U;
  }
  return counter;
}

// The random numbers of one draw, one for each token. Philox derives a key from (seed, position); a
// 64-bit mixing function (SplitMix64's finaliser) derives each token's number from the key and the
// token, in about a nanosecond.
class DrawKey {
 public:
  TANDEM_HOST_DEVICE constexpr DrawKey(std::uint64_t seed, std::uint64_t position) {
    const PhiloxWords bits = philox4x32(
        {{static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0}},
        {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}});
    key_ = (std::uint64_t{bits.word[0]} << 32) | bits.word[1];
  }

  // 52 random bits; the token's number is (bits + 1/2) / 2^52.
  TANDEM_HOST_DEVICE constexpr std::uint64_t bits(std::uint32_t token) const {
    std::uint64_t z = key_ + 0x9E3779B97F4A7C15U * (std::uint64_t{token} + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    z ^= z >> 31;
    return z >> 12;
  }
  // Uniform in (0, 1), both ends excluded.
  TANDEM_HOST_DEVICE constexpr double uniform(std::uint32_t token) const {
    return (static_cast<double>(bits(token)) + 0.5) * 0x1p-52;
  }

 private:
  std::uint64_t key_ = 0;
};

// A race of exponential clocks draws in proportion to the weights: token i's clock rings at E_i /
// weight_i, and the first one wins. Every token has its own E = -log(uniform), so a logit that is
// off by a rounding error (another batch, a recomputed prompt, another device) changes the draw
// only where two tokens were about to tie; one number against cumulated weights would move with
// every rounding. The highest rate wins, of equal ones the lower token.
TANDEM_HOST_DEVICE inline double race_rate(double weight, double uniform) {
  return weight / -std::log(uniform);
}

}  // namespace tandem
