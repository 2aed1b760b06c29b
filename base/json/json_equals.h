#pragma once

#include <string>
#include <string_view>

namespace tandem {

// True if the JSON value is this text. nlohmann's own `value == "text"` is noexcept but allocates a
// value for the text, so that the process would end if memory is short.
template <typename J>
bool is_text(const J& value, std::string_view text) {
  return value.is_string() && value.template get_ref<const std::string&>() == text;
}

}  // namespace tandem
