// Philox4x32-10, the counter-based generator of Salmon et al. (SC 2011): a keyed bijection of the
// counter, so a draw depends on (seed, position) alone.
#pragma once

#include <array>
#include <cstdint>

namespace tandem::host {

constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

// The random numbers of one draw, one for each token: Philox makes a key of (seed, position), and a
// 64-bit mixing function (SplitMix64's finaliser) one number of key and token, at a nanosecond
// each.
class DrawKey {
 public:
  constexpr DrawKey(std::uint64_t seed, std::uint64_t position) {
    const auto bits = philox4x32(
        {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0},
        {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    key_ = (std::uint64_t{bits[0]} << 32) | bits[1];
  }

  // Uniform in (0, 1), both ends excluded.
  constexpr double uniform(std::uint32_t token) const {
    std::uint64_t z = key_ + 0x9E3779B97F4A7C15U * (std::uint64_t{token} + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    z ^= z >> 31;
    return (static_cast<double>(z >> 12) + 0.5) * 0x1p-52;
  }

 private:
  std::uint64_t key_ = 0;
};

}  // namespace tandem::host
