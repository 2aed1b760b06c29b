#include "engine/tokenizer/jinja/values/search.h"

#include <cstring>

namespace tandem::jinja {
namespace {

// memmem is linear (two-way) in our C library.
std::size_t find_from(std::string_view text, std::string_view part, std::size_t from) {
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace

std::size_t find_first(std::string_view text, std::string_view part) {
  spend(text.size() + part.size());
  return find_from(text, part, 0);
}

std::size_t find_last(std::string_view text, std::string_view part) {
  if (part.empty()) return text.size();
  const Offsets last = find_all(text, part, 1, true);
  return last.empty() ? std::string_view::npos : last.front();
}

Offsets find_all(std::string_view text, std::string_view part, std::int64_t max, bool from_right) {
  spend(text.size() + part.size());
  Offsets found;
  const auto full = [&] { return max >= 0 && static_cast<std::int64_t>(found.size()) >= max; };
  if (from_right) {  // searches the reversed text from the left
    const String mirrored(text.rbegin(), text.rend());
    const String mirrored_part(part.rbegin(), part.rend());
    for (const std::size_t at : find_all(mirrored, mirrored_part, max))
      found.push_back(text.size() - at - part.size());
    return found;
  }
  for (std::size_t from = 0; !full();) {
    spend(kStepUnits + part.size());
    const std::size_t at = find_from(text, part, from);
    if (at == std::string_view::npos) break;
    found.push_back(at);
    from = at + part.size();
  }
  return found;
}

}  // namespace tandem::jinja
