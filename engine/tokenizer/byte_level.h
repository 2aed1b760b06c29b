// The byte-level alphabet of GPT-2: each of the 256 bytes is written as one printable character, so
// that a vocabulary of bytes can be stored as text.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

// The character that stands for each byte.
const std::array<char32_t, 256>& byte_level_characters();

// The bytes that `token` stands for, or nothing if it has a character outside the alphabet.
std::optional<std::string> byte_level_bytes(std::string_view token);

}  // namespace tandem
