// Which tokens are best, without sorting the vocabulary. The order is: larger value first, of equal
// ones the lower id first; a NaN ranks last, as -infinity does.
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

// The first of the order; {-infinity, 0} when there is nothing but NaN and -infinity.
Ranked best_of(std::span<const float> values);

// The first `k` of the order (all, if there are fewer), sorted. NaNs in `values` must have been
// replaced. `work` is scratch.
void best_k(std::span<const float> values, std::int64_t k, std::vector<Ranked>& out,
            std::vector<float>& work);

// The last element of the shortest prefix of the order whose values sum to `mass` or more. Values
// are not negative. `work` is scratch.
Ranked prefix_with_mass(std::span<const float> values, double mass, std::vector<Ranked>& work);

}  // namespace tandem::host
