#include "engine/model/step/step_bounds.h"

#include <algorithm>

namespace tandem {

std::vector<std::int32_t> bounds_up_to(std::span<const std::int32_t> values, std::int32_t last) {
  std::vector<std::int32_t> result;
  for (const std::int32_t value : values) {
    if (value < last) result.push_back(value);
  }
  if (last > 0) result.push_back(last);
  return result;
}

std::int32_t bound_of(std::span<const std::int32_t> bounds, std::int32_t value) {
  const auto at = std::ranges::lower_bound(bounds, value);
  return at == bounds.end() ? 0 : *at;
}

}  // namespace tandem
