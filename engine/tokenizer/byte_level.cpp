#include "engine/tokenizer/byte_level.h"

#include <cstdint>

#include "engine/tokenizer/utf8.h"

namespace tandem {
namespace {

constexpr char32_t kFirstStandIn = 0x100;  // for bytes that do not print, from here on
constexpr std::size_t kAlphabetEnd = 0x144;

constexpr bool prints(unsigned b) {
  return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> table{};
  char32_t stand_in = kFirstStandIn;
  for (unsigned b = 0; b < 256; ++b) table[b] = prints(b) ? static_cast<char32_t>(b) : stand_in++;
  return table;
}

constexpr std::array<char32_t, 256> kCharacters = make_characters();

constexpr std::array<std::int16_t, kAlphabetEnd> make_bytes() {
  std::array<std::int16_t, kAlphabetEnd> table{};
  for (std::int16_t& b : table) b = -1;
  for (unsigned b = 0; b < 256; ++b) table[kCharacters[b]] = static_cast<std::int16_t>(b);
  return table;
}

constexpr std::array<std::int16_t, kAlphabetEnd> kBytes = make_bytes();

}  // namespace

const std::array<char32_t, 256>& byte_level_characters() {
  return kCharacters;
}

std::optional<std::string> byte_level_bytes(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (std::size_t pos = 0; pos < token.size();) {
    const char32_t c = utf8::next(token, pos);
    if (c >= kAlphabetEnd || kBytes[c] < 0) return std::nullopt;
    bytes += static_cast<char>(kBytes[c]);
  }
  return bytes;
}

}  // namespace tandem
