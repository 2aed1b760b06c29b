// Converts any text or number to JSON.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// Appends `text` in quotes. Control characters are escaped, and invalid UTF-8 becomes U+FFFD, so
// that the result is valid JSON on one line.
void append_json_string(std::string& out, std::string_view text);

// Appends `number` so that it reads back equal; null if JSON cannot represent it.
void append_json_number(std::string& out, double number);

}  // namespace tandem
