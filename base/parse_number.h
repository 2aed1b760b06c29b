// Numbers in texts, without spaces or a plus sign.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace tandem {

// Reads the number off the front of `text`. Nothing, and `text` stays: it begins with none, or with
// one that T does not hold.
template <typename T>
std::optional<T> take_number(std::string_view& text) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// The number that all of `text` is; nothing: it is none that T holds. Infinity is none.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  const std::optional<T> value = take_number<T>(text);
  if (!text.empty()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (value && !std::isfinite(*value)) return std::nullopt;
  }
  return value;
}

}  // namespace tandem
