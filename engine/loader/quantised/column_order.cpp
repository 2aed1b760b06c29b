#include "engine/loader/quantised/column_order.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace tandem {

Result<std::vector<std::int32_t>> column_order(const ModuleScheme& scheme,
                                               const ModuleTensors& tensors,
                                               std::string_view suffix, std::int64_t cols,
                                               std::int64_t group) {
  if (!scheme.needs_order) {
    const std::optional<StoredTensor> there = tensors.find(suffix);
    const auto is_unset = [](std::byte each) { return each == std::byte{255}; };
    if (!there || std::ranges::all_of(there->bytes, is_unset)) return std::vector<std::int32_t>();
  }
  TANDEM_ASSIGN(const StoredTensor groups_of, tensors.required(suffix, {"I32"}));
  TANDEM_TRY(check_shape(suffix, groups_of, {cols}));
  const std::int64_t groups = (cols + group - 1) / group;
  std::vector<std::int64_t> next(static_cast<std::size_t>(groups));  // free place of each group
  for (std::int64_t g = 0; g < groups; ++g) next[static_cast<std::size_t>(g)] = g * group;
  std::vector<std::int32_t> order(static_cast<std::size_t>(cols));
  bool is_sorted = true;
  for (std::int64_t col = 0; col < cols; ++col) {
    const auto g = groups_of.at<std::int32_t>(static_cast<std::size_t>(col));
    if (g < 0 || g >= groups) {
      return invalid("'{}' puts column {} into group {} of {}", suffix, col, g, groups);
    }
    std::int64_t& place = next[static_cast<std::size_t>(g)];
    if (place == std::min((std::int64_t{g} + 1) * group, cols)) {
      return invalid("'{}' puts more than {} columns into group {}", suffix,
                     place - std::int64_t{g} * group, g);
    }
    is_sorted = is_sorted && place == col;
    order[static_cast<std::size_t>(place++)] = static_cast<std::int32_t>(col);
  }
  if (is_sorted) order.clear();
  return order;
}

}  // namespace tandem
