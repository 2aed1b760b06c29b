#include "base/http/request_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace tandem {

std::string request_id(std::string_view asked) {
  constexpr std::size_t kMaxBytes = 128;
  const bool usable =
      !asked.empty() && asked.size() <= kMaxBytes &&
      std::all_of(asked.begin(), asked.end(), [](char c) { return c > ' ' && c < 127; });
  if (usable) return std::string(asked);
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return fmt::format("req-{:016x}{:08x}", generator(), generator() >> 32);
}

}  // namespace tandem
