// Text of strangers, for people to look at.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

// One line that a terminal, JSON and XML take as it is: every control character, every mark that
// changes the direction of writing, and every byte that is no UTF-8 becomes U+FFFD. What goes
// beyond `most_chars` characters is cut, with "..." in its place.
std::string shown_text(std::string_view text, std::size_t most_chars = 200);

}  // namespace tandem
