#include "engine/constraint/schema/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tandem {
namespace {

using Kind = TextExpression::Kind;

constexpr std::int64_t kMostTimes = 1'000'000;
constexpr int kMostNested = 100;

CodeSet digits() {
  return CodeSet({{'0', '9'}});
}
CodeSet word_characters() {
  return CodeSet({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
}
// White space in both dialects; all_spaces() has the characters that are white space in either.
CodeSet sure_spaces() {
  return CodeSet({{'\t', '\r'}, {' ', ' '}, {0xA0, 0xA0}});
}
CodeSet all_spaces() {
  return CodeSet({{'\t', '\r'},
                  {0x1C, 0x20},
                  {0x85, 0x85},
                  {0xA0, 0xA0},
                  {0x1680, 0x1680},
                  {0x2000, 0x200A},
                  {0x2028, 0x2029},
                  {0x202F, 0x202F},
                  {0x205F, 0x205F},
                  {0x3000, 0x3000},
                  {0xFEFF, 0xFEFF}});
}
CodeSet all_but(const CodeSet& set) {
  return CodeSet::all().without(set);
}

// \d, \W and so on. `in_negated` is true inside a negated class: the set is then an upper bound, so
// that the complement is certain.
std::optional<CodeSet> named_class(char32_t name, bool in_negated) {
  switch (name) {
    case 'd':
      return digits();
    case 'D':
      return all_but(digits());
    case 'w':
      // Python's \w includes many letters beyond ASCII.
      return in_negated
                 ? CodeSet({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {0x80, 0x10FFFF}})
                 : word_characters();
    case 'W':
      return in_negated ? all_but(word_characters())
                        : CodeSet({{0, 0x7F}}).without(word_characters());
    case 's':
      return in_negated ? all_spaces() : sure_spaces();
    case 'S':
      return all_but(in_negated ? sure_spaces() : all_spaces());
    default:
      return std::nullopt;
  }
}

bool is_digit(char32_t c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
std::optional<std::uint32_t> hex_digit(char32_t c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

TextExpression anchor(Kind kind) {
  TextExpression result;
  result.kind = kind;
  return result;
}

class Parser {
 public:
  Parser(std::string_view what, std::string_view pattern)
      : what_(what), text_(code_points(std::string(pattern))) {}

  Result<TextExpression> parse() {
    TANDEM_ASSIGN(TextExpression result, alternatives());
    if (!at_end()) return fault("has a ')' too many");
    return result;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char32_t peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0;
  }
  bool take(char32_t c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view word) {
    if (std::u32string_view(text_).substr(at_).starts_with(word)) {
      at_ += word.size();
      return true;
    }
    return false;
  }
  Status fault(const std::string& fault) const { return invalid("{} {}", what_, fault); }
  std::string written(std::size_t from) const {
    std::string text;
    for (std::size_t i = from; i < std::min(at_, text_.size()); ++i) append_utf8(text_[i], text);
    return text;
  }

  Result<TextExpression> alternatives() {
    if (++depth_ > kMostNested) return fault("has too many groups in groups");
    std::vector<TextExpression> result;
    do {
      std::vector<TextExpression> parts;
      while (!at_end() && peek() != '|' && peek() != ')') {
        TANDEM_ASSIGN(TextExpression part, repeated_part());
        parts.push_back(std::move(part));
      }
      result.push_back(in_sequence(std::move(parts)));
    } while (take(U'|'));
    --depth_;
    return any_of(std::move(result));
  }

  // Parses {2}, {2,} or {2,5}; nothing if it is not a repetition, and then { is a literal.
  std::optional<Lengths> times() {
    const std::size_t begin = at_;
    const auto number = [&]() -> std::optional<std::int64_t> {
      if (!is_digit(peek())) return std::nullopt;
      std::int64_t value = 0;
      while (is_digit(peek())) {
        value = std::min<std::int64_t>(value * 10 + (text_[at_++] - '0'), kMostTimes + 1);
      }
      return value;
    };
    ++at_;
    const auto least = number();
    const bool has_most = take(U',');
    const auto most = has_most ? number() : least;
    if (take(U'}') && (least || has_most)) return Lengths{least.value_or(-1), most.value_or(-1)};
    at_ = begin;
    return std::nullopt;
  }

  Result<TextExpression> repeated_part() {
    const std::size_t begin = at_;
    if (peek() == '*' || peek() == '+' || peek() == '?') {
      return fault("repeats nothing: '*', '+' or '?' begins it or a part of it");
    }
    TANDEM_ASSIGN(TextExpression part, element());
    std::optional<Lengths> count;
    if (take(U'*')) {
      count = Lengths{0, -1};
    } else if (take(U'+')) {
      count = Lengths{1, -1};
    } else if (take(U'?')) {
      count = Lengths{0, 1};
    } else if (peek() == '{' && !at_end()) {
      count = times();
    }
    if (!count) return part;
    if (count->least < 0) return fault("has '{,' without a least number: write {0,");
    if (count->least > kMostTimes || count->most > kMostTimes) {
      return fault(fmt::format("repeats more than {} times", kMostTimes));
    }
    if (count->most >= 0 && count->most < count->least) {
      return fault(fmt::format("has '{}': the most is less than the least", written(begin)));
    }
    (void)take(U'?');  // laziness does not change the set of texts
    const bool again = peek() == '{' && times().has_value();
    if (again || peek() == '*' || peek() == '+' || peek() == '?') {
      if (!again) ++at_;
      return fault(fmt::format("has '{}': one repetition behind another", written(begin)));
    }
    if (part.kind == Kind::begin || part.kind == Kind::end) {
      return fault(fmt::format("has '{}', which repeats no text", written(begin)));
    }
    return repeated(std::move(part), count->least, count->most);
  }

  Result<TextExpression> element() {
    switch (peek()) {
      case '(':
        return group();
      case '[':
        return bracket();
      case '\\':
        return escape();
      case '^':
        ++at_;
        return anchor(Kind::begin);
      case '$':
        ++at_;
        return anchor(Kind::end);
      case '.':
        ++at_;
        return one_of(all_but(CodeSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}})));
      default:
        return one_of(CodeSet::of(text_[at_++]));
    }
  }

  Result<TextExpression> group() {
    const std::size_t begin = at_;
    ++at_;
    if (take(U'?') && !take(U':')) {
      (void)take(U'P');
      if (take(U"=") || take(U"!") || take(U"<=") || take(U"<!")) {
        return fault(fmt::format("has '{}': looking around is not supported", written(begin)));
      }
      bool named = take(U'<');
      const std::size_t name = at_;
      while (is_letter(peek()) || peek() == '_' || is_digit(peek())) ++at_;
      named = named && at_ > name && take(U'>');
      if (!named) {
        ++at_;
        return fault(
            fmt::format("has '{}': flags, and names of groups by other characters than "
                        "letters, digits and _, are not supported",
                        written(begin)));
      }
    }
    TANDEM_ASSIGN(TextExpression inside, alternatives());
    if (!take(U')')) return fault("has a '(' that nothing closes");
    return inside;
  }

  // Parses a character given by number or name, after the backslash and its letter.
  Result<char32_t> numbered(char32_t letter, std::size_t begin) {
    std::size_t count = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    const bool braces = letter == 'u' && take(U'{');
    std::uint32_t value = 0;
    std::size_t found = 0;
    while (found < (braces ? text_.size() : count)) {
      const auto digit = hex_digit(peek());
      if (!digit) break;
      value = std::min<std::uint32_t>(value * 16 + *digit, 0x110000);
      ++found;
      ++at_;
    }
    if (braces ? found == 0 || !take(U'}') : found < count) {
      return fault(fmt::format("has '{}', which is not whole", written(begin)));
    }
    return value;
  }

  Result<char32_t> escaped_character(bool in_class) {
    const std::size_t begin = at_;
    ++at_;
    if (at_end()) return fault("ends with '\\'");
    const char32_t c = text_[at_++];
    switch (c) {
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 't':
        return U'\t';
      case 'f':
        return U'\f';
      case 'v':
        return U'\v';
      case 'b':
        if (in_class) return U'\b';
        break;
      case '0':
        if (!is_digit(peek())) return U'\0';
        break;
      case 'x':
      case 'u':
      case 'U': {
        TANDEM_ASSIGN(char32_t value, numbered(c, begin));
        if (value >= 0xD800 && value < 0xDC00 && take(U"\\u")) {
          TANDEM_ASSIGN(const char32_t low, numbered('u', begin));
          if (low >= 0xDC00 && low < 0xE000) {
            return 0x10000 + ((value - 0xD800) << 10U) + (low - 0xDC00);
          }
          value = 0xD800;
        }
        if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
          return fault(fmt::format("has '{}', which is no character", written(begin)));
        }
        return value;
      }
      case 'c':
        return fault("has '\\c': write the character by its number, as \\u0001");
      default:
        break;
    }
    if (c < 0x20) return fault("has '\\' before a character that needs none");
    if (!is_letter(c) && !is_digit(c)) return c;
    return fault(
        fmt::format("has '{}', which is not supported: word boundaries, references to "
                    "groups and classes of Unicode are not, nor letters that mean nothing",
                    written(begin)));
  }

  Result<TextExpression> escape() {
    if (const auto set = named_class(peek(1), false)) {
      at_ += 2;
      return one_of(*set);
    }
    TANDEM_ASSIGN(const char32_t c, escaped_character(false));
    return one_of(CodeSet::of(c));
  }

  Result<TextExpression> bracket() {
    ++at_;
    const bool negated = take(U'^');
    if (peek() == ']') return fault("has an empty class");
    std::vector<CodeRange> ranges;
    const auto single = [&]() -> Result<char32_t> {
      if (peek() == '\\') return escaped_character(true);
      return text_[at_++];
    };
    while (peek() != ']') {
      if (at_end()) return fault("has a '[' that nothing closes");
      if (peek() == '\\') {
        if (const auto set = named_class(peek(1), negated)) {
          at_ += 2;
          ranges.insert(ranges.end(), set->ranges().begin(), set->ranges().end());
          if (peek() == '-' && peek(1) != ']') {
            return fault("has a range in a class from what is no single character");
          }
          continue;
        }
      }
      TANDEM_ASSIGN(const char32_t first, single());
      char32_t last = first;
      if (peek() == '-' && peek(1) != ']' && at_ + 1 < text_.size()) {
        ++at_;
        if (peek() == '\\' && named_class(peek(1), negated)) {
          return fault("has a range in a class to what is no single character");
        }
        TANDEM_ASSIGN(last, single());
        if (last < first) return fault("has a range in a class that goes backwards");
      }
      ranges.push_back({first, last});
    }
    ++at_;
    const CodeSet set(std::move(ranges));
    return one_of(negated ? all_but(set) : set);
  }

  std::string_view what_;
  std::u32string text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

// One alternative of a pattern, and whether it is anchored at the text's ends.
struct Way {
  bool begin = false;
  bool end = false;
  TextExpression body;
};

bool has_anchor(const TextExpression& each) {
  return each.kind == Kind::begin || each.kind == Kind::end ||
         std::ranges::any_of(each.parts, has_anchor);
}

Result<std::vector<Way>> ways_of(std::string_view what, const TextExpression& each) {
  constexpr std::size_t kMost = 256;
  if (each.kind == Kind::begin) return std::vector<Way>{{true, false, {}}};
  if (each.kind == Kind::end) return std::vector<Way>{{false, true, {}}};
  if (!has_anchor(each)) return std::vector<Way>{{false, false, each}};
  if (each.kind == Kind::repeat) return invalid("{} repeats a part with ^ or $", what);
  std::vector<Way> result;
  if (each.kind == Kind::choice) {
    for (const TextExpression& part : each.parts) {
      TANDEM_ASSIGN(std::vector<Way> ways, ways_of(what, part));
      std::move(ways.begin(), ways.end(), std::back_inserter(result));
    }
    return result;
  }
  result.push_back({});
  for (const TextExpression& part : each.parts) {
    TANDEM_ASSIGN(const std::vector<Way> next, ways_of(what, part));
    std::vector<Way> joined;
    for (const Way& before : result) {
      for (const Way& after : next) {
        const bool starts = before.body.is_empty_text();
        if ((after.begin && !starts) || (before.end && !after.body.is_empty_text())) {
          return invalid("{} has ^ or $ in its midst", what);
        }
        joined.push_back({before.begin || after.begin, before.end || after.end,
                          in_sequence({before.body, after.body})});
        if (joined.size() > kMost) return invalid("{} has too many alternatives with ^ or $", what);
      }
    }
    result = std::move(joined);
  }
  return result;
}

}  // namespace

Result<TextExpression> parse_pattern(std::string_view what, std::string_view pattern) {
  return Parser(what, pattern).parse();
}

Result<TextExpression> texts_matched(std::string_view what, const TextExpression& pattern) {
  TANDEM_ASSIGN(std::vector<Way> ways, ways_of(what, pattern));
  std::vector<TextExpression> result;
  result.reserve(ways.size());
  for (Way& way : ways) result.push_back(std::move(way.body));
  return any_of(std::move(result));
}

Result<TextExpression> texts_searched(std::string_view what, const TextExpression& pattern) {
  TANDEM_ASSIGN(std::vector<Way> ways, ways_of(what, pattern));
  const TextExpression anything = repeated(one_of(CodeSet::all()), 0);
  std::vector<TextExpression> result;
  result.reserve(ways.size());
  for (Way& way : ways) {
    result.push_back(in_sequence({way.begin ? TextExpression() : anything, std::move(way.body),
                                  way.end ? TextExpression() : anything}));
  }
  return any_of(std::move(result));
}

}  // namespace tandem
