// GPT-2's byte-level alphabet: each of the 256 bytes is represented by one printable character, so
// that a vocabulary of bytes can be stored as text.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

// The character that represents each byte.
const std::array<char32_t, 256>& byte_level_characters();

// Returns the bytes that `token` represents; nothing if it has a character outside the alphabet.
std::optional<std::string> byte_level_bytes(std::string_view token);

}  // namespace tandem
