#include "engine/server/tool_calls/marker_matcher.h"

#include <algorithm>
#include <utility>

namespace tandem {

bool MarkerMatcher::begins_marker(const std::string& text) const {
  return std::any_of(markers_.begin(), markers_.end(),
                     [&](const std::string& marker) { return marker.starts_with(text); });
}

std::optional<std::size_t> MarkerMatcher::push(char c, std::string& text) {
  held_ += c;
  if (!begins_marker(held_)) {
    text.append(held_, 0, held_.size() - 1);
    held_.assign(1, c);
    if (!begins_marker(held_)) text += std::exchange(held_, {});
    return std::nullopt;
  }
  const auto found = std::find(markers_.begin(), markers_.end(), held_);
  if (found == markers_.end()) return std::nullopt;
  held_.clear();
  return static_cast<std::size_t>(found - markers_.begin());
}

std::string MarkerMatcher::flush() {
  return std::exchange(held_, {});
}

}  // namespace tandem
