// Finds markers in a text that arrives byte by byte.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tandem {

// Requires that the first byte of a marker occurs nowhere else in any marker. A failed match can
// then contain the beginning of another one only at its last byte, and matching takes linear time.
class MarkerMatcher {
 public:
  explicit MarkerMatcher(std::span<const char* const> markers)
      : markers_(markers.begin(), markers.end()) {}

  // Returns the marker that `c` completes. Otherwise nothing, and bytes that certainly belong to no
  // marker are appended to `text`.
  std::optional<std::size_t> push(char c, std::string& text);
  // Returns the held-back bytes at the end of the text.
  std::string flush();

 private:
  bool begins_marker(const std::string& text) const;

  std::vector<std::string> markers_;
  std::string held_;  // an incomplete marker
};

}  // namespace tandem
