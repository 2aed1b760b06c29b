// Random weights as a WeightSource.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/loader/random_fill.h"
#include "engine/loader/thread_team.h"
#include "engine/loader/weights.h"

namespace tandem {
namespace {

// In elements, a multiple of 4. Small enough that one part of a tensor keeps many threads busy.
constexpr std::size_t kChunk = 1 << 18;

struct Spread {
  float mean;
  float half_width;
};

// Keeps activations near unit size through any number of layers.
Spread spread_of(std::string_view name, std::span<const std::int64_t> shape, float norm_weight) {
  if (name.ends_with("norm.weight")) return {norm_weight, 0.1F};
  if (name.ends_with(".bias")) return {0.0F, 0.05F};
  // A uniform variable on [-h, h] has the variance h^2 / 3.
  const auto in = static_cast<float>(shape.back());
  return {0.0F, std::sqrt(3.0F / in)};
}

class DummyWeights final : public WeightSource {
 public:
  DummyWeights(std::uint64_t seed, float norm_weight) : seed_(seed), norm_weight_(norm_weight) {}

  bool has(std::string_view /*name*/) const override { return true; }

  Status read_part(std::string_view name, std::span<const std::int64_t> shape, DType dtype,
                   std::size_t first, std::size_t wanted, void* target) const override {
    std::size_t total = shape.empty() ? 0 : 1;
    for (const std::int64_t size : shape) {
      TANDEM_CHECK(size >= 0, "{} has a negative size", name);
      if (__builtin_mul_overflow(total, static_cast<std::size_t>(size), &total)) {
        return invalid("tensor '{}' is too large for this machine", name);
      }
    }
    if (first >= total) return {};
    const std::size_t count = std::min(wanted, total - first);
    const Spread spread = spread_of(name, shape, norm_weight_);
    const std::uint64_t key = random_key(seed_, name);
    parallel_chunks(count, kChunk, [&](std::size_t begin, std::size_t end) {
      random_fill(key, first + begin, end - begin, spread.mean, spread.half_width, dtype,
                  static_cast<std::byte*>(target) + begin * size_of(dtype));
    });
    return {};
  }

 private:
  std::uint64_t seed_;
  float norm_weight_;
};

}  // namespace

std::unique_ptr<WeightSource> make_dummy_weights(std::uint64_t seed, float norm_weight) {
  return std::make_unique<DummyWeights>(seed, norm_weight);
}

}  // namespace tandem
