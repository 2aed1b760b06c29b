// Translation from Oniguruma's dialect to PCRE2's.
#include <array>

#include "engine/tokenizer/regex/regex.h"

namespace tandem {
namespace {

// Replaces PCRE2's own \w, which excludes marks before version 10.43.
constexpr std::string_view kWordInside = "\\p{L}\\p{M}\\p{Nd}\\p{Pc}";

bool is_general_category(std::string_view name) {
  constexpr std::array<std::string_view, 38> kNames = {
      "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
      "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
      "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs", "Any"};
  for (const std::string_view known : kNames)
    if (name == known) return true;
  return false;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (pos_ < pattern_.size()) {
      TANDEM_TRY(in_class_ ? inside_class() : outside_class());
    }
    return std::move(out_);
  }

 private:
  Status refuse(std::string_view what) const {
    return invalid("regular expression \"{}\": {} is not supported", pattern_, what);
  }
  char peek(std::size_t ahead = 0) const {
    return pos_ + ahead < pattern_.size() ? pattern_[pos_ + ahead] : '\0';
  }
  void copy(std::size_t n = 1) {
    out_ += pattern_.substr(pos_, n);
    pos_ += n;
  }

  Status outside_class() {
    switch (peek()) {
      case '\\':
        return escape();
      case '[':
        in_class_ = true;
        copy();
        if (peek() == '^') copy();
        if (peek() == ']') return refuse("a ']' that opens a character class");
        return {};
      case '{':
        return interval();
      case '(':
        return group();
      case '#':  // begins a comment only under (?x), which group() refuses
      default:
        copy();
        return {};
    }
  }

  // Handles {n,m}: Oniguruma reads a following + as a second quantifier, PCRE2 as "possessive".
  Status interval() {
    const std::size_t end = pattern_.find('}', pos_);
    if (end == std::string_view::npos || peek(1) == ',') return refuse("this use of '{'");
    const std::string_view body = pattern_.substr(pos_ + 1, end - pos_ - 1);
    if (body.empty() || body.find_first_not_of("0123456789,") != std::string_view::npos)
      return refuse("this use of '{'");
    const char after = end + 1 < pattern_.size() ? pattern_[end + 1] : '\0';
    if (after == '+') return refuse("'+' after an interval");
    if (after == '?' && body.find(',') == std::string_view::npos)
      return refuse("'?' after a fixed interval");
    copy(end + 1 - pos_);
    return {};
  }

  Status group() {
    if (peek(1) == '*') return refuse("'(*'");
    if (peek(1) != '?') {
      copy();
      return {};
    }
    switch (peek(2)) {
      case ':':
      case '=':
      case '!':
      case '>':
        copy(3);
        return {};
      case '<':
        if (peek(3) != '=' && peek(3) != '!') return refuse("a named group");
        copy(4);
        return {};
      case 'i':
        if (peek(3) == ':' || peek(3) == ')') {
          copy(4);
          return {};
        }
        [[fallthrough]];
      default:  // m, x and s have other meanings there
        return refuse(fmt::format("\"{}\"", pattern_.substr(pos_, 4)));
    }
  }

  Status inside_class() {
    const char c = peek();
    if (c == '\\') return escape();
    if (c == '[') return refuse("'[' inside a character class");
    if (c == '&' && peek(1) == '&') return refuse("'&&' inside a character class");
    if (c == ']') in_class_ = false;
    copy();
    return {};
  }

  Status escape() {
    const char c = peek(1);
    switch (c) {
      case '\0':
        return refuse("a trailing backslash");
      case 's':
      case 'S':
        out_ += c == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
        pos_ += 2;
        return {};
      case 'w':
        out_ += in_class_ ? std::string(kWordInside) : fmt::format("[{}]", kWordInside);
        pos_ += 2;
        return {};
      case 'W':
        if (in_class_) return refuse("\\W inside a character class");
        out_ += fmt::format("[^{}]", kWordInside);
        pos_ += 2;
        return {};
      case 'p':
      case 'P':
        return property();
      case 'd':
      case 'D':
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'x':
        copy(2);
        return {};
      case 'A':
      case 'z':
        if (in_class_) break;
        copy(2);
        return {};
      case 'v':  // one character in Oniguruma, a class in PCRE2
        out_ += "\\x0b";
        pos_ += 2;
        return {};
      default:
        break;
    }
    const bool alphanumeric =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (alphanumeric) return refuse(fmt::format("\\{}", c));
    copy(2);
    return {};
  }

  // For the name of a script, Oniguruma matches the Script property and PCRE2 Script_Extensions.
  Status property() {
    const std::size_t end = pattern_.find('}', pos_);
    if (peek(2) != '{' || end == std::string_view::npos) return refuse("\\p without braces");
    std::string_view name = pattern_.substr(pos_ + 3, end - pos_ - 3);
    out_ += fmt::format("\\{}{{", peek(1));
    if (name.starts_with('^')) {
      out_ += '^';
      name.remove_prefix(1);
    }
    for (const char c : name)
      if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'))
        return refuse(fmt::format("\\p{{{}}}", name));
    out_ += is_general_category(name) ? std::string(name) : fmt::format("sc:{}", name);
    out_ += '}';
    pos_ = end + 1;
    return {};
  }

  std::string_view pattern_;
  std::size_t pos_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

Result<std::string> translate_oniguruma(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace tandem
