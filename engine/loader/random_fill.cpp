#include "engine/loader/random_fill.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace tandem {
namespace {

// Folds the high and low halves of a 128-bit product, so that every bit depends on all bits of both
// factors.
std::uint64_t fold_multiply(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<std::uint64_t>(product >> 64) ^ static_cast<std::uint64_t>(product);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;  // 2^64 / golden ratio, odd
constexpr std::uint64_t kOdd = 0xd6e8feb86659fd93U;

}  // namespace

std::uint64_t random_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t key = fold_multiply(seed ^ kGolden, kOdd);
  for (const char c : name)
    key = fold_multiply(key ^ static_cast<unsigned char>(c), kOdd) + kGolden;
  return key;
}

void random_fill(std::uint64_t key, std::size_t begin, std::size_t count, float mean,
                 float half_width, DType dtype, void* target) {
  TANDEM_CHECK(begin % 4 == 0, "begin {}", begin);
  constexpr std::size_t kBlock = 2048;  // fits in the L1 cache together with its floats
  std::array<std::uint64_t, kBlock / 4> draws;
  std::array<std::int16_t, kBlock> steps;
  std::array<float, kBlock> values;
  const float step = half_width / 32768.0F;
  auto* out = static_cast<std::byte*>(target);
  for (std::size_t done = 0; done < count; done += kBlock) {
    const std::size_t n = std::min(kBlock, count - done);
    const std::size_t num_draws = (n + 3) / 4;
    const std::uint64_t first = key + (begin + done) / 4 * kGolden;
    for (std::size_t i = 0; i < num_draws; ++i) {
      const std::uint64_t counter = first + i * kGolden;
      draws[i] = fold_multiply(counter ^ key, counter | 1);
    }
    std::memcpy(steps.data(), draws.data(), num_draws * sizeof(draws[0]));
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = mean + step * (static_cast<float>(steps[i]) + 0.5F);
    }
    convert(DType::f32, values.data(), dtype, out + done * size_of(dtype), n);
  }
}

void random_bytes(std::uint64_t key, std::size_t begin, std::size_t count, std::uint8_t* target) {
  for (std::size_t at = begin; at < begin + count;) {
    const std::uint64_t counter = key + at / 8 * kGolden;
    const std::uint64_t draw = fold_multiply(counter ^ key, counter | 1);
    const std::size_t n = std::min(8 - at % 8, begin + count - at);
    std::memcpy(target + (at - begin), reinterpret_cast<const std::uint8_t*>(&draw) + at % 8, n);
    at += n;
  }
}

}  // namespace tandem
