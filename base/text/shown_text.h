// Makes untrusted text safe to display.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

// One line that is safe in a terminal, JSON and XML: every control character, every mark that
// changes the text direction, and every invalid byte of UTF-8 becomes U+FFFD. Text longer than
// `most_chars` characters is cut, and ends in "...".
std::string shown_text(std::string_view text, std::size_t most_chars = 200);

}  // namespace tandem
