// Texts and numbers as JSON, whatever they are.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// Appends `text` in quotes. Control characters are escaped, and what is no UTF-8 becomes U+FFFD, so
// that the result is valid JSON and on one line.
void append_json_string(std::string& out, std::string_view text);

// Appends `number` as it is read back, or null where JSON has no word for it.
void append_json_number(std::string& out, double number);

}  // namespace tandem
