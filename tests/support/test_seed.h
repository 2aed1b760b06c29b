// The seed of a test that searches at random: TANDEM_TEST_SEED, which replays a run, else
// `otherwise`.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace tandem {

// Prints the seed, as a test that crashes or hangs tells nothing else.
inline std::uint64_t test_seed(std::uint64_t otherwise = std::random_device{}()) {
  const char* const given = std::getenv("TANDEM_TEST_SEED");
  const std::uint64_t seed = given == nullptr ? otherwise : std::stoull(given);
  std::printf("TANDEM_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

}  // namespace tandem
