// The seed of a randomised test: TANDEM_TEST_SEED, which repeats a run, or else
// `otherwise`.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace tandem {

// Prints the seed, because a test that crashes or hangs reports nothing else.
inline std::uint64_t test_seed(std::uint64_t otherwise = std::random_device{}()) {
  const char* const given = std::getenv("TANDEM_TEST_SEED");
  const std::uint64_t seed = given == nullptr ? otherwise : std::stoull(given);
  std::printf("TANDEM_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

}  // namespace tandem
