#include "engine/constraint/schema/text_expression.h"

#include <algorithm>
#include <utility>

namespace tandem {

namespace {

using Kind = TextExpression::Kind;

}  // namespace

CodeSet::CodeSet(std::vector<CodeRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  const auto add = [this](char32_t first, char32_t last) {
    if (first > last) return;
    if (!ranges_.empty() && first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, last);
    } else {
      ranges_.push_back({first, last});
    }
  };
  for (const CodeRange& range : ranges) {
    add(range.first, std::min<char32_t>(range.last, 0xD7FF));
    add(std::max<char32_t>(range.first, 0xE000), std::min<char32_t>(range.last, 0x10FFFF));
  }
}

const CodeSet& CodeSet::all() {
  static const CodeSet set({{0, 0x10FFFF}});
  return set;
}

CodeSet CodeSet::without(const CodeSet& other) const {
  std::vector<CodeRange> left;
  auto out = other.ranges_.begin();
  for (const CodeRange& range : ranges_) {
    char32_t next = range.first;
    while (out != other.ranges_.end() && out->last < range.first) ++out;
    for (auto at = out; at != other.ranges_.end() && at->first <= range.last; ++at) {
      if (at->first > next) left.push_back({next, at->first - 1});
      next = std::max<char32_t>(next, at->last + 1);
    }
    if (next <= range.last) left.push_back({next, range.last});
  }
  return CodeSet(std::move(left));
}

bool CodeSet::contains(char32_t c) const {
  const auto at = std::partition_point(ranges_.begin(), ranges_.end(),
                                       [c](const CodeRange& range) { return range.last < c; });
  return at != ranges_.end() && at->first <= c;
}

TextExpression no_text() {
  TextExpression result;
  result.kind = Kind::never;
  return result;
}

TextExpression literal(std::string text) {
  TextExpression result;
  if (text.empty()) return result;
  result.kind = Kind::text;
  result.text = std::move(text);
  return result;
}

TextExpression one_of(CodeSet characters) {
  TextExpression result;
  result.kind = characters.empty() ? Kind::never : Kind::characters;
  result.characters = std::move(characters);
  return result;
}

TextExpression in_sequence(std::vector<TextExpression> parts) {
  TextExpression result;
  for (TextExpression& part : parts) {
    if (part.kind == Kind::never) return no_text();
    if (part.kind == Kind::sequence) {
      for (TextExpression& inner : part.parts) result.parts.push_back(std::move(inner));
    } else if (part.kind == Kind::text && !result.parts.empty() &&
               result.parts.back().kind == Kind::text) {
      result.parts.back().text += part.text;
    } else {
      result.parts.push_back(std::move(part));
    }
  }
  if (result.parts.size() != 1) return result;
  TextExpression only = std::move(result.parts.front());
  return only;
}

TextExpression any_of(std::vector<TextExpression> parts) {
  TextExpression result;
  result.kind = Kind::choice;
  for (TextExpression& part : parts) {
    if (part.kind == Kind::never) continue;
    if (part.kind == Kind::choice) {
      for (TextExpression& inner : part.parts) result.parts.push_back(std::move(inner));
    } else {
      result.parts.push_back(std::move(part));
    }
  }
  if (result.parts.empty()) return no_text();
  if (result.parts.size() != 1) return result;
  TextExpression only = std::move(result.parts.front());
  return only;
}

TextExpression repeated(TextExpression part, std::int64_t least, std::int64_t most) {
  if (most >= 0 && most < least) return no_text();
  if (most == 0 || part.is_empty_text()) return {};
  if (part.kind == Kind::never) return least == 0 ? TextExpression() : no_text();
  if (least == 1 && most == 1) return part;
  TextExpression result;
  result.kind = Kind::repeat;
  result.parts.push_back(std::move(part));
  result.least = least;
  result.most = most;
  return result;
}

TextExpression maybe(TextExpression part) {
  return repeated(std::move(part), 0, 1);
}

TextExpression by_rule(std::int32_t rule) {
  TextExpression result;
  result.kind = Kind::rule;
  result.rule = rule;
  return result;
}

void append_utf8(char32_t c, std::string& text) {
  const auto byte = [&](char32_t bits) { text += static_cast<char>(bits); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xC0U | (c >> 6U));
    byte(0x80U | (c & 0x3FU));
  } else if (c < 0x10000) {
    byte(0xE0U | (c >> 12U));
    byte(0x80U | ((c >> 6U) & 0x3FU));
    byte(0x80U | (c & 0x3FU));
  } else {
    byte(0xF0U | (c >> 18U));
    byte(0x80U | ((c >> 12U) & 0x3FU));
    byte(0x80U | ((c >> 6U) & 0x3FU));
    byte(0x80U | (c & 0x3FU));
  }
}

std::u32string code_points(const std::string& text) {
  std::u32string result;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (i + length > text.size()) break;
    char32_t c = length == 1 ? first : first & (0x7FU >> length);
    for (std::size_t k = 1; k < length; ++k) {
      c = (c << 6U) | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    }
    result += c;
    i += length;
  }
  return result;
}

}  // namespace tandem
