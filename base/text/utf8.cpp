#include "base/text/utf8.h"

#include <cstring>

namespace tandem::utf8 {
namespace {

// The meaning of a lead byte: how many bytes follow, and the bounds of the first of them (which
// exclude overlong forms, surrogates and values past U+10FFFF). following = 0: not a lead byte.
struct Lead {
  std::uint8_t following, low, high;
};

Lead lead(std::uint8_t b) {
  if (b >= 0xC2 && b <= 0xDF) return {1, 0x80, 0xBF};
  if (b == 0xE0) return {2, 0xA0, 0xBF};
  if (b == 0xED) return {2, 0x80, 0x9F};
  if (b >= 0xE1 && b <= 0xEF) return {2, 0x80, 0xBF};
  if (b == 0xF0) return {3, 0x90, 0xBF};
  if (b >= 0xF1 && b <= 0xF3) return {3, 0x80, 0xBF};
  if (b == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

// The size in bytes of the well-formed character at text[pos]; 0 if there is none.
std::size_t character_size(std::string_view text, std::size_t pos) {
  auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  if (byte(pos) < 0x80) return 1;
  const Lead first = lead(byte(pos));
  if (first.following == 0 || text.size() - pos <= first.following) return 0;
  if (byte(pos + 1) < first.low || byte(pos + 1) > first.high) return 0;
  for (std::size_t i = 2; i <= first.following; ++i)
    if ((byte(pos + i) & 0xC0) != 0x80) return 0;
  return first.following + 1U;
}

}  // namespace

std::size_t find_invalid(std::string_view text) {
  std::size_t pos = 0;
  while (pos < text.size()) {
    std::uint64_t word = 0;
    if (text.size() - pos >= sizeof word) {  // eight ASCII bytes at a time
      std::memcpy(&word, text.data() + pos, sizeof word);
      if ((word & 0x8080808080808080U) == 0) {
        pos += sizeof word;
        continue;
      }
    }
    const std::size_t size = character_size(text, pos);
    if (size == 0) return pos;
    pos += size;
  }
  return std::string_view::npos;
}

char32_t next(std::string_view text, std::size_t& pos) {
  const auto first = static_cast<std::uint8_t>(text[pos]);
  if (first < 0x80) {
    ++pos;
    return first;
  }
  const std::size_t size = character_size(text, pos);
  if (size == 0) {
    ++pos;
    return 0xFFFD;
  }
  char32_t c = first & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i)
    c = (c << 6) | (static_cast<std::uint8_t>(text[pos + i]) & 0x3FU);
  pos += size;
  return c;
}

std::size_t previous(std::string_view text, std::size_t pos) {
  --pos;
  while (pos > 0 && (static_cast<std::uint8_t>(text[pos]) & 0xC0) == 0x80) --pos;
  return pos;
}

void append(std::string& out, char32_t c) {
  auto tail = [&](unsigned shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  } else if (c < 0x10000) {
    out += {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  } else {
    out += {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
  }
}

std::size_t length(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t pos = 0; pos < text.size(); ++count) next(text, pos);
  return count;
}

void LossyDecoder::push(std::string_view bytes, std::string& out) {
  std::size_t i = 0;
  while (i < bytes.size()) {
    const auto b = static_cast<std::uint8_t>(bytes[i]);
    if (needed_ > 0) {
      if (b < low_ || b > high_) {  // the held bytes are ill-formed; b is processed again
        finish(out);
        continue;
      }
      held_[count_++] = bytes[i++];
      low_ = 0x80;
      high_ = 0xBF;
      if (--needed_ == 0) {
        out.append(held_, count_);
        count_ = 0;
      }
      continue;
    }
    ++i;
    if (b < 0x80) {
      out += static_cast<char>(b);
    } else if (const Lead first = lead(b); first.following > 0) {
      held_[0] = static_cast<char>(b);
      count_ = 1;
      needed_ = first.following;
      low_ = first.low;
      high_ = first.high;
    } else {
      out += kReplacement;
    }
  }
}

void LossyDecoder::finish(std::string& out) {
  if (count_ > 0) out += kReplacement;
  count_ = needed_ = 0;
}

}  // namespace tandem::utf8
