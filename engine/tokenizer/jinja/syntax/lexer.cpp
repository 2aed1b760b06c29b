#include "engine/tokenizer/jinja/syntax/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/tokenizer/jinja/values/error.h"
#include "engine/tokenizer/jinja/values/text.h"
#include "engine/tokenizer/utf8.h"

namespace tandem::jinja {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Line ends become \n, and one at the end of the template is dropped.
std::string normalize_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_lines(source)) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) text_and_tag();
    emit(Token::Type::end, "");
    return std::move(tokens_);
  }

 private:
  using Type = Token::Type;

  void emit(Type type, std::string text) { tokens_.push_back({type, std::move(text), line_}); }
  [[noreturn]] void fail(const std::string& message) const { throw Error(message, line_); }
  std::string_view rest() const { return std::string_view(source_).substr(pos_); }
  bool at(std::string_view what) const { return rest().starts_with(what); }
  void advance(std::size_t n) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(pos_),
                                    source_.begin() + static_cast<std::ptrdiff_t>(pos_ + n), '\n'));
    pos_ += n;
  }
  void skip_space() { advance(rest().size() - strip_left(rest()).size()); }
  void skip_newline() {
    if (at("\n")) advance(1);
  }

  // Reads the output up to the next tag, without white space that the tag's sign or lstrip_blocks
  // removes, then the tag.
  void text_and_tag() {
    std::size_t begin = pos_;
    do {
      begin = source_.find('{', begin);
      if (begin == std::string::npos) {
        emit(Type::text, source_.substr(pos_));
        pos_ = source_.size();
        return;
      }
      ++begin;
    } while (begin >= source_.size() ||
             (source_[begin] != '{' && source_[begin] != '%' && source_[begin] != '#'));
    --begin;
    const char kind = source_[begin + 1];
    const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
    const bool line_starting = pos_ == 0 || source_[pos_ - 1] == '\n';
    std::string_view text = std::string_view(source_).substr(pos_, begin - pos_);
    if (sign == '-') {
      text = strip_right(text);
    } else if (sign != '+' && kind != '{') {
      const std::size_t newline = text.rfind('\n');
      const std::size_t last_line = newline == std::string_view::npos ? 0 : newline + 1;
      if ((last_line > 0 || line_starting) && strip_left(text.substr(last_line)).empty())
        text = text.substr(0, last_line);
    }
    if (!text.empty()) emit(Type::text, std::string(text));
    advance(begin - pos_ + (sign == '-' || sign == '+' ? 3 : 2));
    if (kind == '#') {
      comment();
    } else if (kind == '{') {
      emit(Type::variable_begin, "{{");
      inside_tag(false);
    } else if (!raw()) {
      emit(Type::block_begin, "{%");
      inside_tag(true);
    }
  }

  void comment() {
    const std::size_t end = source_.find("#}", pos_);
    if (end == std::string::npos) fail("a comment has no end");
    const char sign = end > pos_ ? source_[end - 1] : '\0';
    advance(end + 2 - pos_);
    if (sign == '-') {
      skip_space();
    } else if (sign != '+') {
      skip_newline();
    }
  }

  // Reads {% raw %} ... {% endraw %} if the current tag is one.
  bool raw() {
    std::string_view after = strip_left(rest());
    if (!after.starts_with("raw")) return false;
    after = strip_left(after.substr(3));
    const bool strip = after.starts_with("-%}");
    if (!strip && !after.starts_with("%}")) return false;
    after = after.substr(strip ? 3 : 2);
    advance(rest().size() - after.size());
    if (strip) skip_space();
    const std::size_t body = pos_;
    for (std::size_t tag = source_.find("{%", pos_); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      std::string_view end = std::string_view(source_).substr(tag + 2);
      const char sign = end.empty() ? '\0' : end[0];
      if (sign == '-' || sign == '+') end = end.substr(1);
      end = strip_left(end);
      if (!end.starts_with("endraw")) continue;
      end = strip_left(end.substr(6));
      const char end_sign = end.starts_with("-%}") || end.starts_with("+%}") ? end[0] : '\0';
      if (end_sign == '\0' && !end.starts_with("%}")) continue;
      std::string_view text = std::string_view(source_).substr(body, tag - body);
      if (sign == '-') {
        text = strip_right(text);
      } else if (sign != '+') {
        const std::size_t newline = text.rfind('\n');
        if (newline != std::string_view::npos && strip_left(text.substr(newline + 1)).empty())
          text = text.substr(0, newline + 1);
      }
      if (!text.empty()) emit(Type::text, std::string(text));
      end = end.substr(end_sign == '\0' ? 2 : 3);
      advance(rest().size() - end.size());
      if (end_sign == '-') skip_space();
      if (end_sign == '\0') skip_newline();
      return true;
    }
    fail("raw has no endraw");
  }

  // Reads the end of the tag if it is here.
  bool tag_end(bool block) {
    const std::string_view close = block ? "%}" : "}}";
    const char sign = at("-") || (block && at("+")) ? rest()[0] : '\0';
    if (!rest().substr(sign == '\0' ? 0 : 1).starts_with(close)) return false;
    emit(block ? Type::block_end : Type::variable_end, std::string(close));
    advance(close.size() + (sign == '\0' ? 0 : 1));
    if (sign == '-') skip_space();
    if (block && sign == '\0') skip_newline();
    return true;
  }

  void inside_tag(bool block) {
    std::string open;  // the open brackets; inside them "}}" does not end the tag
    while (true) {
      skip_space();
      if (pos_ == source_.size()) fail("a tag has no end");
      if (open.empty() && tag_end(block)) return;
      const char c = source_[pos_];
      if (is_digit(c)) {
        number();
      } else if (is_name_start(c)) {
        std::size_t n = 1;
        while (n < rest().size() && (is_name_start(rest()[n]) || is_digit(rest()[n]))) ++n;
        emit(Type::name, std::string(rest().substr(0, n)));
        advance(n);
      } else if (c == '\'' || c == '"') {
        string(c);
      } else {
        punctuation(open);
      }
    }
  }

  void number() {
    const bool after_dot = source_[pos_ - 1] == '.';
    auto digits = [&](std::size_t i) {
      while (i < rest().size() &&
             (is_digit(rest()[i]) ||
              (rest()[i] == '_' && i > 0 && i + 1 < rest().size() && is_digit(rest()[i + 1]))))
        ++i;
      return i;
    };
    if (at("0x") || at("0X") || at("0b") || at("0B") || at("0o") || at("0O"))
      fail("numbers other than decimal are not supported");
    std::size_t n = digits(0);
    bool floating = false;
    if (!after_dot) {
      if (n + 1 < rest().size() && rest()[n] == '.' && is_digit(rest()[n + 1])) {
        n = digits(n + 1);
        floating = true;
      }
      if (n < rest().size() && (rest()[n] == 'e' || rest()[n] == 'E')) {
        std::size_t exponent = n + 1;
        if (exponent < rest().size() && (rest()[exponent] == '+' || rest()[exponent] == '-'))
          ++exponent;
        if (exponent < rest().size() && is_digit(rest()[exponent])) {
          n = digits(exponent);
          floating = true;
        }
      }
    }
    std::string text(rest().substr(0, n));
    std::erase(text, '_');
    emit(floating ? Type::floating : Type::integer, std::move(text));
    advance(n);
  }

  void string(char quote) {
    std::string value;
    std::size_t i = 1;
    const std::string_view s = rest();
    while (i < s.size() && s[i] != quote) {
      if (s[i] != '\\') {
        value += s[i++];
        continue;
      }
      if (i + 1 >= s.size()) break;
      i = escape(s, i + 1, value);
    }
    if (i >= s.size()) fail("a string has no end");
    emit(Type::string, std::move(value));
    advance(i + 1);
  }

  // Resolves Python's escapes; s[i] is the character after the backslash. Returns the index after
  // the escape.
  std::size_t escape(std::string_view s, std::size_t i, std::string& value) const {
    constexpr std::string_view kFrom = "abfnrtv\\'\"";
    constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
    const char c = s[i];
    if (const std::size_t k = kFrom.find(c); k != std::string_view::npos) {
      value += kTo[k];
      return i + 1;
    }
    if (c == '\n') return i + 1;
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) {
      char32_t code = 0;
      for (std::size_t k = 1; k <= digits; ++k) {
        const char d = i + k < s.size() ? s[i + k] : '\0';
        const std::size_t v = std::string_view("0123456789abcdef")
                                  .find(d >= 'A' && d <= 'F' ? static_cast<char>(d + 32) : d);
        if (d == '\0' || v == std::string_view::npos) fail("a string has a malformed escape");
        code = code * 16 + static_cast<char32_t>(v);
      }
      if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        fail("a string has an escape that is no character");
      utf8::append(value, code);
      return i + 1 + digits;
    }
    if (c == 'N' || (c >= '0' && c <= '7')) fail(fmt::format("escape \\{} is not supported", c));
    value += '\\';  // unknown escapes keep the backslash, as in Python
    value += c;
    return i + 1;
  }

  void punctuation(std::string& open) {
    constexpr std::array<std::string_view, 6> kDouble = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view op : kDouble) {
      if (!at(op)) continue;
      emit(Type::op, std::string(op));
      return advance(2);
    }
    const char c = source_[pos_];
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos)
      fail(fmt::format("unexpected character '{}'", c));
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail(fmt::format("unexpected '{}'", c));
      open.pop_back();
    }
    emit(Type::op, std::string(1, c));
    advance(1);
  }

  std::string source_;
  std::size_t pos_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace tandem::jinja
