#pragma once

#include <string>
#include <string_view>

namespace tandem {

// Whether a value of JSON is this text. nlohmann's own `value == "text"` makes a value of the text,
// for which it takes memory, and is noexcept: where there is none the process would end.
template <typename J>
bool is_text(const J& value, std::string_view text) {
  return value.is_string() && value.template get_ref<const std::string&>() == text;
}

}  // namespace tandem
