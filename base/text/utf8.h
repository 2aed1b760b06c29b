// UTF-8: validation, iteration, lossy decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::utf8 {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The offset of the first byte that begins no well-formed character (overlong forms and surrogates
// are ill-formed), or npos.
std::size_t find_invalid(std::string_view text);
inline bool valid(std::string_view text) {
  return find_invalid(text) == std::string_view::npos;
}

// The character that starts at text[pos]; moves pos past it. A byte that starts no well-formed
// character is returned as U+FFFD and moves pos by one. Requires pos < text.size().
char32_t next(std::string_view text, std::size_t& pos);

// The start of the character that ends just before text[pos]. Requires pos > 0 and valid text.
std::size_t previous(std::string_view text, std::size_t pos);

// Appends c (a scalar value) to out.
void append(std::string& out, char32_t c);

// The number of characters of valid text.
std::size_t length(std::string_view text);

// Decodes bytes that arrive in pieces: every maximal ill-formed run becomes one U+FFFD, as Unicode
// recommends. Holds back at most three bytes of an unfinished character.
class LossyDecoder {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);  // an unfinished character becomes U+FFFD

 private:
  char held_[4] = {};
  std::uint8_t count_ = 0;   // bytes held
  std::uint8_t needed_ = 0;  // bytes still to come
  std::uint8_t low_ = 0x80;  // bounds of the next byte
  std::uint8_t high_ = 0xBF;
};

}  // namespace tandem::utf8
