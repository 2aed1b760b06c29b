#include "base/text/id_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/parse_number.h"

namespace tandem {
namespace {

std::vector<int> rising(std::vector<int> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

Result<std::vector<int>> parse_id_list(std::string_view text) {
  // Overlapping ranges in a malicious list could otherwise fill the memory.
  constexpr std::size_t kMostIds = 2 * std::size_t{kMaxId};
  std::vector<int> ids;
  std::string_view rest = text;
  const auto malformed = [&] { return invalid("'{}' is not a list as in 0-3,8", text); };
  const auto take = [&](int& value) {
    value = take_number<int>(rest).value_or(-1);
    return value >= 0 && value <= kMaxId;
  };
  while (!rest.empty()) {
    int first = 0;
    if (!take(first)) return malformed();
    int last = first;
    if (rest.starts_with('-')) {
      rest.remove_prefix(1);
      if (!take(last) || last < first) return malformed();
    }
    if (ids.size() + static_cast<std::size_t>(last - first) >= kMostIds) return malformed();
    for (int id = first; id <= last; ++id) ids.push_back(id);
    if (rest.empty()) break;
    if (!rest.starts_with(',') || rest.size() == 1) return malformed();
    rest.remove_prefix(1);
  }
  return rising(std::move(ids));
}

std::string format_id_list(std::vector<int> ids) {
  ids = rising(std::move(ids));
  std::string text;
  for (std::size_t i = 0; i < ids.size();) {
    std::size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(ids[i]);
    if (end - i > 1) text += fmt::format("-{}", ids[end - 1]);
    i = end;
  }
  return text;
}

std::vector<int> common_ids(std::vector<int> some, std::vector<int> others) {
  std::ranges::sort(some);
  std::ranges::sort(others);
  std::vector<int> both;
  std::ranges::set_intersection(some, others, std::back_inserter(both));
  both.erase(std::unique(both.begin(), both.end()), both.end());
  return both;
}

}  // namespace tandem
