// Python's two formatting syntaxes: "%.2f" % x and "{:.2f}".format(x).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/parse_number.h"
#include "engine/tokenizer/jinja/render/access.h"
#include "engine/tokenizer/jinja/render/builtins.h"
#include "engine/tokenizer/jinja/values/print.h"
#include "engine/tokenizer/utf8.h"

namespace tandem::jinja {
namespace {

// The limit on widths and precisions; no prompt needs more.
constexpr std::int64_t kMaxWidth = 10'000;

struct Spec {
  String fill = " ";
  char align = '\0';       // '<', '>', '^', '=' (between sign and digits)
  char sign = '-';         // '+', ' '
  bool alternate = false;  // the # of %#x, which adds 0x
  std::int64_t width = 0;
  char grouping = '\0';  // ',' or '_'
  std::optional<std::int64_t> precision;
  char type = '\0';
};

// Reads the digits at text[pos]; nothing if there are none.
std::optional<std::int64_t> take_number(std::string_view text, std::size_t& pos) {
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(text.data() + pos, text.data() + text.size(), number);
  if (status == std::errc::invalid_argument || text[pos] == '-') return std::nullopt;
  if (status != std::errc() || number > kMaxWidth)
    throw Error(fmt::format("format: a width or precision is more than {}", kMaxWidth));
  pos = static_cast<std::size_t>(end - text.data());
  return number;
}

char char_at(std::string_view text, std::size_t pos) {
  return pos < text.size() ? text[pos] : '\0';
}

// Combines sign, digits with their prefix (such as 0x), and padding.
String laid_out(const Spec& spec, bool negative, std::string_view prefix, String digits) {
  if (spec.grouping != '\0') {
    std::size_t end = 0;
    while (end < digits.size() && digits[end] >= '0' && digits[end] <= '9') ++end;
    const bool decimal =
        spec.type != 'x' && spec.type != 'X' && spec.type != 'b' && spec.type != 'o';
    const std::size_t group = decimal ? 3 : 4;
    if (!decimal) end = digits.size();
    for (std::size_t at = end; at > group; at -= group) digits.insert(at - group, 1, spec.grouping);
  }
  String head(negative ? "-" : spec.sign == '-' ? "" : spec.sign == '+' ? "+" : " ");
  head += prefix;
  if (spec.align == '=') {
    const auto taken = static_cast<std::int64_t>(head.size());
    return head + padded(digits, spec.width - taken, '>', spec.fill);
  }
  return padded(head + digits, spec.width, spec.align == '\0' ? '>' : spec.align, spec.fill);
}

String whole_number(const Spec& spec, std::int64_t number) {
  const auto magnitude =
      number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  std::string_view prefix;
  std::string digits;
  switch (spec.type) {
    case 'x':
      prefix = "0x";
      digits = fmt::format("{:x}", magnitude);
      break;
    case 'X':
      prefix = "0X";
      digits = fmt::format("{:X}", magnitude);
      break;
    case 'o':
      prefix = "0o";
      digits = fmt::format("{:o}", magnitude);
      break;
    case 'b':
      prefix = "0b";
      digits = fmt::format("{:b}", magnitude);
      break;
    default:
      digits = fmt::format("{}", magnitude);
  }
  return laid_out(spec, number < 0, spec.alternate ? prefix : "", String(digits));
}

String real_number(const Spec& spec, double number) {
  const double magnitude = std::abs(number);
  const bool negative = std::signbit(number) && !std::isnan(number);
  const auto precision = static_cast<int>(spec.precision.value_or(6));
  std::string digits;
  switch (spec.type) {
    case 'f':
      digits = fmt::format("{:.{}f}", magnitude, precision);
      break;
    case 'F':
      digits = fmt::format("{:.{}F}", magnitude, precision);
      break;
    case 'e':
      digits = fmt::format("{:.{}e}", magnitude, precision);
      break;
    case 'E':
      digits = fmt::format("{:.{}E}", magnitude, precision);
      break;
    case 'g':
      digits = fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
      break;
    case 'G':
      digits = fmt::format("{:.{}G}", magnitude, std::max(precision, 1));
      break;
    case '%':
      digits = fmt::format("{:.{}f}%", magnitude * 100, precision);
      break;
    default:  // like str(), or with the given digits and at least one after the point
      if (!spec.precision) {
        digits = repr(Value(magnitude));
      } else {
        digits = fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
        if (digits.find_first_of(".en") == std::string::npos) digits += ".0";
      }
  }
  return laid_out(spec, negative, "", String(digits));
}

String some_text(const Spec& spec, std::string_view text) {
  if (spec.precision) {
    std::size_t end = 0;
    for (std::int64_t i = 0; i < *spec.precision && end < text.size(); ++i) utf8::next(text, end);
    text = text.substr(0, end);
  }
  return padded(text, spec.width, spec.align == '\0' ? '<' : spec.align, spec.fill);
}

std::string character(std::int64_t code) {
  if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
    throw Error("format: a number is no character");
  std::string text;
  utf8::append(text, static_cast<char32_t>(code));
  return text;
}

bool is_one_of(char c, std::string_view set) {
  return c != '\0' && set.find(c) != std::string_view::npos;
}

// Parses the part after the colon in {:>8.2f}.
Spec parse_spec(std::string_view text) {
  Spec spec;
  std::size_t pos = 0;
  std::size_t after_fill = 0;
  if (!text.empty()) utf8::next(text, after_fill);
  if (is_one_of(char_at(text, after_fill), "<>=^")) {
    spec.fill = text.substr(0, after_fill);
    spec.align = text[after_fill];
    pos = after_fill + 1;
  } else if (is_one_of(char_at(text, 0), "<>=^")) {
    spec.align = text[pos++];
  }
  if (is_one_of(char_at(text, pos), "+- ")) spec.sign = text[pos++];
  if (char_at(text, pos) == '#') spec.alternate = ++pos > 0;
  if (char_at(text, pos) == '0') {
    ++pos;
    if (spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
  }
  if (pos < text.size()) spec.width = take_number(text, pos).value_or(0);
  if (is_one_of(char_at(text, pos), ",_")) spec.grouping = text[pos++];
  if (char_at(text, pos) == '.') {
    ++pos;
    if (pos < text.size()) spec.precision = take_number(text, pos);
    if (!spec.precision) throw Error("format: a precision has no digits");
  }
  if (pos < text.size()) spec.type = text[pos++];
  if (pos < text.size() || (spec.type != '\0' && !is_one_of(spec.type, "sdbcoxXneEfFgG%")))
    throw Error(fmt::format("format: \"{}\" is not supported", text));
  return spec;
}

String formatted(const Value& value, const Spec& given) {
  Spec spec = given;
  if (is_number(value) && spec.type != 's') {
    if (spec.type == 'n') spec.type = 'd';
    const bool whole = !is_float(value) && !is_one_of(spec.type, "eEfFgG%");
    if (whole && spec.precision) throw Error("format: a precision is not allowed for integers");
    if (whole && spec.type == 'c') return some_text(spec, character(integer_of(value)));
    if (whole) return whole_number(spec, integer_of(value));
    if (is_one_of(spec.type, "dbcoxX"))
      throw Error(fmt::format("format: '{}' cannot be used for a float", spec.type));
    return real_number(spec, double_of(value));
  }
  if (spec.type != '\0' && spec.type != 's')
    throw Error(fmt::format("format: '{}' cannot be used for a {}", spec.type, type_name(value)));
  return some_text(spec, str(value));
}

// Resolves "0.name[key]": an argument, then attributes and items of it.
Value field_value(std::string_view field, ArgReader& args) {
  const std::size_t end = std::min(field.find_first_of(".["), field.size());
  const String name(field.substr(0, end));
  Value value;
  if (name.empty()) {
    value = args.require("a value");
  } else if (name.find_first_not_of("0123456789") == String::npos) {
    if (name.size() > 3) throw Error("format: an argument has too high a number");
    std::size_t index = 0;
    std::from_chars(name.data(), name.data() + name.size(), index);
    value = args.positional(index);
  } else {
    value = args.named(name);
  }
  for (std::size_t pos = end; pos < field.size();) {
    const bool is_item = field[pos] == '[';
    const std::size_t close = is_item ? field.find(']', pos) : field.find_first_of(".[", pos + 1);
    if (is_item && close == std::string_view::npos) throw Error("format: a '[' without ']'");
    const std::size_t stop = std::min(close, field.size());
    const std::string_view key = field.substr(pos + 1, stop - pos - 1);
    const auto index = parse_number<std::int64_t>(key);
    value =
        !is_item ? get_attribute(value, key) : get_item(value, index ? Value(*index) : Value(key));
    pos = stop + (is_item ? 1 : 0);
  }
  return value;
}

// The arguments of "%", taken in turn or, for %(name)s, by name.
class PercentValues {
 public:
  explicit PercentValues(const Value& values) : values_(values), tuple_(values.as<Sequence>()) {
    if (tuple_ != nullptr && !tuple_->is_tuple) tuple_ = nullptr;
  }
  const Value& next() {
    const std::size_t count = tuple_ == nullptr ? 1 : tuple_->items.size();
    if (used_ == count) throw Error("%: not enough values for the format");
    ++used_;
    return tuple_ == nullptr ? values_ : tuple_->items[used_ - 1];
  }
  const Value& named(std::string_view name) const {
    const Dict* dict = values_.as<Dict>();
    const Value* found = dict == nullptr ? nullptr : dict->find(name);
    if (found == nullptr) throw Error(fmt::format("%: there is no value '{}'", name));
    return *found;
  }
  void done() const {
    const bool left = tuple_ == nullptr ? used_ == 0 && values_.as<Dict>() == nullptr
                                        : used_ < tuple_->items.size();
    if (left) throw Error("%: more values than the format takes");
  }

 private:
  const Value& values_;
  const Sequence* tuple_;
  std::size_t used_ = 0;
};

std::int64_t star(PercentValues& values) {
  const std::int64_t number = integer_of(values.next());
  if (number < -kMaxWidth || number > kMaxWidth)
    throw Error(fmt::format("%: a width or precision is more than {}", kMaxWidth));
  return number;
}

String percent_value(const Value& value, Spec spec) {
  if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
    if (spec.align == '=') spec.align = '\0';  // zero padding is for numbers only
    if (spec.align == '\0') spec.align = '>';
    spec.fill = " ";
    const bool plain = spec.type == 's';
    return some_text(spec, plain ? str(value) : repr(value));
  }
  if (spec.type == 'c' && is_string(value)) return some_text(spec, *value.as<String>());
  if (!is_number(value)) throw Error(fmt::format("%{} needs a number", spec.type));
  if (is_one_of(spec.type, "eEfFgG")) return real_number(spec, double_of(value));
  if (is_float(value) && spec.type != 'd')
    throw Error(fmt::format("%{} needs an integer", spec.type));
  spec.precision.reset();
  if (spec.type == 'c') return some_text(spec, character(integer_of(value)));
  return whole_number(spec, is_float(value) ? truncated(double_of(value)) : integer_of(value));
}

}  // namespace

String padded(std::string_view text, std::int64_t width, char side, std::string_view fill) {
  const auto length = static_cast<std::int64_t>(utf8::length(text));
  spend(text.size());
  if (width <= length) return String(text);
  const std::int64_t missing = width - length;
  const std::int64_t before = side == '<' ? 0 : side == '>' ? missing : missing / 2;
  String out;
  for (std::int64_t i = 0; i < missing; ++i) {
    if (i == before) out += text;
    spend(fill.size());
    out += fill;
  }
  if (before == missing) out += text;
  return out;
}

String centered(std::string_view text, std::int64_t width, std::string_view fill) {
  const auto length = static_cast<std::int64_t>(utf8::length(text));
  const std::int64_t missing = std::max<std::int64_t>(width - length, 0);
  const std::int64_t left = missing / 2 + (missing & width & 1);
  return padded(padded(text, length + left, '>', fill), width, '<', fill);
}

String format_percent(std::string_view format, const Value& values) {
  PercentValues source(values);
  String out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    ++i;
    if (char_at(format, i) == '%') {
      out += '%';
      continue;
    }
    Spec spec;
    std::optional<std::string_view> name;
    if (char_at(format, i) == '(') {
      const std::size_t end = format.find(')', i);
      if (end == std::string_view::npos) throw Error("%: a '(' without ')'");
      name = format.substr(i + 1, end - i - 1);
      i = end + 1;
    }
    for (; is_one_of(char_at(format, i), "-+ 0#"); ++i) {
      if (format[i] == '-') spec.align = '<';
      if (format[i] == '#') spec.alternate = true;
      if (format[i] == '+' || (format[i] == ' ' && spec.sign == '-')) spec.sign = format[i];
      if (format[i] == '0' && spec.align == '\0') spec.align = '=';
    }
    if (spec.align == '=') spec.fill = "0";
    if (char_at(format, i) == '*') {
      spec.width = star(source);
      if (spec.width < 0) spec.align = '<';
      spec.width = std::abs(spec.width);
      ++i;
    } else if (i < format.size()) {
      spec.width = take_number(format, i).value_or(0);
    }
    if (char_at(format, i) == '.') {
      ++i;
      if (char_at(format, i) == '*') {
        spec.precision = std::max<std::int64_t>(star(source), 0);
        ++i;
      } else {
        spec.precision = i < format.size() ? take_number(format, i).value_or(0) : 0;
      }
    }
    while (is_one_of(char_at(format, i), "hlL")) ++i;
    spec.type = char_at(format, i);
    if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
    if (!is_one_of(spec.type, "srdoxXeEfFgGca"))
      throw Error(fmt::format("% format \"%{}\" is not supported", spec.type));
    out += percent_value(name ? source.named(*name) : source.next(), spec);
  }
  source.done();
  return out;
}

String format_braces(std::string_view format, ArgReader& args) {
  String out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    const bool doubled = char_at(format, i + 1) == c;
    if ((c == '{' || c == '}') && doubled) {
      out += c;
      ++i;
    } else if (c == '}') {
      throw Error("format: a single '}'");
    } else if (c != '{') {
      out += c;
    } else {
      const std::size_t end = format.find('}', i);
      if (end == std::string_view::npos) throw Error("format: a '{' without '}'");
      const std::string_view whole = format.substr(i + 1, end - i - 1);
      if (whole.find('{') != std::string_view::npos)
        throw Error("format: a field within a field is not supported");
      const std::size_t colon = std::min(whole.find(':'), whole.size());
      const std::size_t mark = std::min(whole.substr(0, colon).find('!'), colon);
      Value value = field_value(whole.substr(0, mark), args);
      if (mark < colon) {
        const std::string_view conversion = whole.substr(mark + 1, colon - mark - 1);
        if (conversion != "r" && conversion != "s" && conversion != "a")
          throw Error(fmt::format("format: conversion \"!{}\" is not known", conversion));
        value = Value(conversion == "s" ? str(value) : repr(value));
      }
      const std::string_view spec = whole.substr(std::min(colon + 1, whole.size()));
      out += spec.empty() ? str(value) : formatted(value, parse_spec(spec));
      i = end;
    }
  }
  return out;
}

}  // namespace tandem::jinja
