// Finds the best tokens without sorting the vocabulary. The order is: larger value first, ties by
// the lower id; a NaN ranks last, as -infinity does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::host {

struct Ranked {
  float value;
  std::int32_t id;
};

constexpr bool better(const Ranked& a, const Ranked& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

// The first in the order; {-infinity, 0} if there is nothing but NaN and -infinity.
Ranked best_of(std::span<const float> values);

// The first `k` in the order (or all, if there are fewer), sorted. NaNs in `values` must have been
// replaced before. `work` is scratch.
void best_k(std::span<const float> values, std::int64_t k, std::vector<Ranked>& out,
            std::vector<float>& work);

// The last element of the shortest prefix of the order whose values sum to at least `mass`. Values
// must not be negative. `work` is scratch.
Ranked prefix_with_mass(std::span<const float> values, double mass, std::vector<Ranked>& work);

}  // namespace tandem::host
