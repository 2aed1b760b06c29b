// Finds markers in a text that comes byte by byte.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tandem {

// Requires that a marker's first byte comes nowhere else in any of them: then what fails to match
// holds the beginning of no other match but at its last byte, and matching takes linear time.
class MarkerMatcher {
 public:
  explicit MarkerMatcher(std::span<const char* const> markers)
      : markers_(markers.begin(), markers.end()) {}

  // The marker that `c` ends. Else nothing, and what is certain to be no part of one goes to
  // `text`.
  std::optional<std::size_t> push(char c, std::string& text);
  // What was held back, at the end of the text.
  std::string flush();

 private:
  bool begins_marker(const std::string& text) const;

  std::vector<std::string> markers_;
  std::string held_;  // the beginning of a marker
};

}  // namespace tandem
