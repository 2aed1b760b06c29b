#include "base/json/json_text.h"

#include <cstddef>

namespace tandem {

namespace {

// Calls `at(c)` for each character outside of strings, and for the quote that begins a string,
// until it returns false.
template <typename At>
void scan_outside_strings(std::string_view json, At at) {
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    in_string = c == '"';
    if (!at(c)) return;
  }
}

}  // namespace

bool nests_deeper_than(std::string_view json, int limit) {
  int depth = 0;
  scan_outside_strings(json, [&](char c) {
    if (c == '[' || c == '{') return ++depth <= limit;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    return true;
  });
  return depth > limit;
}

std::size_t json_tree_bytes(std::string_view json) {
  constexpr std::size_t kValue = 32;      // in a list, whose capacity is up to twice its length
  constexpr std::size_t kString = 64;     // its object, and malloc's overhead for its characters
  constexpr std::size_t kMember = 48;     // a node of the map, excluding its key and value
  constexpr std::size_t kContainer = 96;  // its object, and a list's first value
  std::size_t bytes = kValue;
  scan_outside_strings(json, [&](char c) {
    switch (c) {
      case '"':
        bytes += kString;
        break;
      case ',':
        bytes += kValue;
        break;
      case ':':
        bytes += kMember;
        break;
      case '[':
      case '{':
        bytes += kContainer;
        break;
      default:
        break;
    }
    return true;
  });
  return bytes;
}

}  // namespace tandem
