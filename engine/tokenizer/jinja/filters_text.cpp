// Filters on single values: text, numbers, JSON. Also the table of all.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "engine/tokenizer/jinja/builtins.h"
#include "engine/tokenizer/jinja/filters.h"
#include "engine/tokenizer/jinja/interpreter.h"
#include "engine/tokenizer/jinja/text.h"
#include "engine/tokenizer/utf8.h"

namespace tandem::jinja {
namespace {

// A filter without arguments.
template <std::string (*Function)(std::string_view)>
Value on_text(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "filter").done();
  return Value(Function(input.str()));
}

Value trim(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "trim");
  const Value chars = reader.next("chars", Value());
  reader.done();
  const std::string text = input.str();
  if (chars.is_none()) return Value(strip_right(strip_left(text)));
  const std::string set = chars.str();
  return Value(strip_right(strip_left(text, set), set));
}

// Words begin after white space, hyphens and opening brackets.
std::string title(std::string_view s) {
  std::string out;
  std::size_t begin = 0;
  auto is_border = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (std::size_t pos = 0; pos < s.size();) {
    const std::size_t at = pos;
    if (!is_border(utf8::next(s, pos))) continue;
    out += capitalize(s.substr(begin, at - begin));
    out += s.substr(at, pos - at);
    begin = pos;
  }
  return out + capitalize(s.substr(begin));
}

std::string escape(std::string_view s) {
  std::string out;
  for (const char c : s) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string same_text(std::string_view s) {
  return std::string(s);
}

Value safe(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "safe").done();
  return Value(input.str());
}

Value replace(Interpreter& in, const Value& input, Args& args) {
  ArgReader reader(args, "replace");
  const Value from = reader.require("old");
  const Value to = reader.require("new");
  const Value count = reader.next("count", Value());
  reader.done();
  return Value(
      replace_text(in, input.str(), from.str(), to.str(), count.is_none() ? -1 : count.as_int()));
}

Value default_value(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "default");
  Value fallback = reader.next("default_value", Value(""));
  const bool when_false = reader.next("boolean", Value(false)).truthy();
  reader.done();
  return input.is_undefined() || (when_false && !input.truthy()) ? fallback : input;
}

Value indent(Interpreter& in, const Value& input, Args& args) {
  ArgReader reader(args, "indent");
  const Value width = reader.next("width", Value(std::int64_t{4}));
  const bool first = reader.next("first", Value(false)).truthy();
  const bool blank = reader.next("blank", Value(false)).truthy();
  reader.done();
  std::string margin;
  if (width.is_string()) {
    margin = *width.string();
  } else {
    constexpr std::int64_t kMaxWidth = 10'000;
    if (width.as_int() > kMaxWidth) throw Error("indent: the width is too large");
    margin.assign(static_cast<std::size_t>(std::max<std::int64_t>(width.as_int(), 0)), ' ');
  }
  // A line feed is added first, so that a text that ends in one keeps its last, empty line.
  const std::string text = input.str() + "\n";
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (begin > 0) out += '\n';
    const bool margin_here = begin == 0 ? first : blank || end > begin;
    if (margin_here) out += margin;
    out.append(text, begin, end - begin);
    begin = end + 1;
    in.charge(1);
    if (out.size() > (16U << 20)) in.charge_text(out.size());
  }
  in.charge_text(out.size());
  return Value(std::move(out));
}

Value to_int(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "int");
  Value fallback = reader.next("default", Value(std::int64_t{0}));
  const std::int64_t base = reader.next("base", Value(std::int64_t{10})).as_int();
  reader.done();
  if (base != 10) throw Error("int: bases other than 10 are not supported");
  if (input.is_float())
    return std::isfinite(input.as_double()) ? Value(truncated(input.as_double())) : fallback;
  if (input.is_number()) return Value(input.as_int());
  if (!input.is_string()) return fallback;
  std::string_view text = strip_right(strip_left(*input.string()));
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status == std::errc() && end == text.data() + text.size()) return Value(number);
  double real = 0;
  const auto [real_end, real_status] =
      std::from_chars(text.data(), text.data() + text.size(), real);
  if (real_status != std::errc() || real_end != text.data() + text.size() || !std::isfinite(real))
    return fallback;
  return Value(truncated(real));
}

Value to_float(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "float");
  Value fallback = reader.next("default", Value(0.0));
  reader.done();
  if (input.is_number()) return Value(input.as_double());
  if (!input.is_string()) return fallback;
  std::string_view text = strip_right(strip_left(*input.string()));
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  return status == std::errc() && end == text.data() + text.size() ? Value(number) : fallback;
}

Value absolute(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "abs").done();
  if (input.is_float()) return Value(std::abs(input.as_double()));
  const std::int64_t n = input.as_int();
  if (n == INT64_MIN) throw Error("an integer is too large");
  return Value(n < 0 ? -n : n);
}

Value round(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "round");
  const std::int64_t precision = reader.next("precision", Value(std::int64_t{0})).as_int();
  const std::string method = reader.next("method", Value("common")).str();
  reader.done();
  if (precision < 0 || precision > 15) throw Error("round: the precision must be from 0 to 15");
  const double number = input.as_double();
  if (method == "common") {
    if (!input.is_float()) return Value(input.as_int());
    // Through text: that rounds the exact value, ties to even, as Python does.
    const std::string text = fmt::format("{:.{}f}", number, precision);
    double rounded = 0;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return Value(rounded);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value(std::ceil(number * scale) / scale);
  if (method == "floor") return Value(std::floor(number * scale) / scale);
  throw Error("round: the method must be common, ceil or floor");
}

Value to_json_filter(Interpreter& in, const Value& input, Args& args) {
  ArgReader reader(args, "tojson");
  JsonStyle style;
  style.ascii = reader.next("ensure_ascii", Value(false)).truthy();
  const Value width = reader.next("indent", Value());
  const Value separators = reader.next("separators", Value());
  style.sort_keys = reader.next("sort_keys", Value(false)).truthy();
  reader.done();
  if (!width.is_none()) {
    constexpr std::int64_t kMaxIndent = 64;
    const std::int64_t spaces = width.as_int();
    if (spaces > kMaxIndent) throw Error("tojson: the indent is too large");
    style.indent = static_cast<int>(std::max<std::int64_t>(spaces, 0));
    style.item_separator.assign(1, ',');
  }
  if (!separators.is_none()) {
    const auto pair = separators.iterate();
    if (pair->items.size() != 2) throw Error("tojson: separators must be two strings");
    style.item_separator = pair->items[0].str();
    style.key_separator = pair->items[1].str();
  }
  std::string text = to_json(input, style);
  in.charge_text(text.size());
  return Value(std::move(text));
}

Value wordcount(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "wordcount").done();
  std::int64_t words = 0;
  bool in_word = false;
  const std::string text = input.str();
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = utf8::next(text, pos);
    const bool word = is_alnum(c) || c == '_';
    if (word && !in_word) ++words;
    in_word = word;
  }
  return Value(words);
}

Value format(Interpreter& in, const Value& input, Args& args) {
  ArgReader reader(args, "format");
  const Value values = Value::tuple(reader.rest());
  reader.done();
  std::string text = format_percent(input.str(), values);
  in.charge_text(text.size());
  return Value(std::move(text));
}

}  // namespace

const std::vector<std::pair<std::string_view, FilterFunction>>& text_filters() {
  static const std::vector<std::pair<std::string_view, FilterFunction>> kFilters = {
      {"upper", on_text<to_upper>},
      {"lower", on_text<to_lower>},
      {"capitalize", on_text<capitalize>},
      {"title", on_text<title>},
      {"escape", on_text<escape>},
      {"e", on_text<escape>},
      {"string", on_text<same_text>},
      {"safe", safe},
      {"trim", trim},
      {"replace", replace},
      {"default", default_value},
      {"d", default_value},
      {"indent", indent},
      {"int", to_int},
      {"float", to_float},
      {"abs", absolute},
      {"round", round},
      {"tojson", to_json_filter},
      {"wordcount", wordcount},
      {"format", format},
  };
  return kFilters;
}

FilterFunction find_filter(const std::string& name) {
  static const auto kAll = [] {
    std::unordered_map<std::string_view, FilterFunction> all;
    for (const auto* table : {&text_filters(), &sequence_filters()})
      all.insert(table->begin(), table->end());
    return all;
  }();
  const auto it = kAll.find(name);
  return it == kAll.end() ? nullptr : it->second;
}

}  // namespace tandem::jinja
