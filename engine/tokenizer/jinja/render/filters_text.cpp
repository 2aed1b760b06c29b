// Filters on single values: text, numbers, JSON. Also the table of all filters.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "base/parse_number.h"
#include "engine/tokenizer/jinja/render/builtins.h"
#include "engine/tokenizer/jinja/render/filters.h"
#include "engine/tokenizer/jinja/render/interpreter.h"
#include "engine/tokenizer/jinja/values/print.h"
#include "engine/tokenizer/jinja/values/text.h"
#include "engine/tokenizer/utf8.h"

namespace tandem::jinja {
namespace {

// Adapts a filter without arguments.
template <String (*Function)(std::string_view)>
Value on_text(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "filter").done();
  return Value(Function(str(input)));
}

Value trim(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "trim");
  const Value chars = reader.next("chars", Value());
  reader.done();
  const String text = str(input);
  if (is_none(chars)) return Value(strip_right(strip_left(text)));
  const String set = str(chars);
  return Value(strip_right(strip_left(text, set), set));
}

// Words begin after white space, hyphens and opening brackets.
String title(std::string_view s) {
  String out;
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

String escape(std::string_view s) {
  String out;
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

String same_text(std::string_view s) {
  return String(s);
}

Value safe(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "safe").done();
  return Value(str(input));
}

Value replace(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "replace");
  const Value from = reader.require("old");
  const Value to = reader.require("new");
  const Value count = reader.next("count", Value());
  reader.done();
  return Value(
      replace_text(str(input), str(from), str(to), is_none(count) ? -1 : integer_of(count)));
}

Value default_value(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "default");
  Value fallback = reader.next("default_value", Value(""));
  const bool when_false = truthy(reader.next("boolean", Value(false)));
  reader.done();
  return is_undefined(input) || (when_false && !truthy(input)) ? fallback : input;
}

Value indent(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "indent");
  const Value width = reader.next("width", Value(std::int64_t{4}));
  const bool first = truthy(reader.next("first", Value(false)));
  const bool blank = truthy(reader.next("blank", Value(false)));
  reader.done();
  String margin;
  if (is_string(width)) {
    margin = *width.as<String>();
  } else {
    constexpr std::int64_t kMaxWidth = 10'000;
    if (integer_of(width) > kMaxWidth) throw Error("indent: the width is too large");
    margin.assign(static_cast<std::size_t>(std::max<std::int64_t>(integer_of(width), 0)), ' ');
  }
  // A line feed is appended so that a text that ends in one keeps its last, empty line.
  const String text = str(input) + "\n";
  String out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (begin > 0) out += '\n';
    const bool margin_here = begin == 0 ? first : blank || end > begin;
    if (margin_here) out += margin;
    out.append(text, begin, end - begin);
    begin = end + 1;
    spend_steps(1);
  }
  return Value(std::move(out));
}

Value to_int(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "int");
  Value fallback = reader.next("default", Value(std::int64_t{0}));
  const std::int64_t base = integer_of(reader.next("base", Value(std::int64_t{10})));
  reader.done();
  if (base != 10) throw Error("int: bases other than 10 are not supported");
  if (is_float(input))
    return std::isfinite(double_of(input)) ? Value(truncated(double_of(input))) : fallback;
  if (is_number(input)) return Value(integer_of(input));
  if (!is_string(input)) return fallback;
  std::string_view text = strip_right(strip_left(*input.as<String>()));
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  if (const auto number = parse_number<std::int64_t>(text)) return Value(*number);
  const auto real = parse_number<double>(text);
  return real ? Value(truncated(*real)) : fallback;
}

Value to_float(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "float");
  Value fallback = reader.next("default", Value(0.0));
  reader.done();
  if (is_number(input)) return Value(double_of(input));
  if (!is_string(input)) return fallback;
  std::string_view text = strip_right(strip_left(*input.as<String>()));
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  return status == std::errc() && end == text.data() + text.size() ? Value(number) : fallback;
}

Value absolute(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "abs").done();
  if (is_float(input)) return Value(std::abs(double_of(input)));
  const std::int64_t n = integer_of(input);
  if (n == INT64_MIN) throw Error("an integer is too large");
  return Value(n < 0 ? -n : n);
}

Value round(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "round");
  const std::int64_t precision = integer_of(reader.next("precision", Value(std::int64_t{0})));
  const String method = str(reader.next("method", Value("common")));
  reader.done();
  if (precision < 0 || precision > 15) throw Error("round: the precision must be from 0 to 15");
  const double number = double_of(input);
  if (method == "common") {
    if (!is_float(input)) return Value(integer_of(input));
    // The conversion through text rounds the exact value, ties to even, as Python does.
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

Value to_json_filter(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "tojson");
  JsonStyle style;
  style.ascii = truthy(reader.next("ensure_ascii", Value(false)));
  const Value width = reader.next("indent", Value());
  const Value separators = reader.next("separators", Value());
  style.sort_keys = truthy(reader.next("sort_keys", Value(false)));
  reader.done();
  if (!is_none(width)) {
    constexpr std::int64_t kMaxIndent = 64;
    const std::int64_t spaces = integer_of(width);
    if (spaces > kMaxIndent) throw Error("tojson: the indent is too large");
    style.indent = static_cast<int>(std::max<std::int64_t>(spaces, 0));
    style.item_separator.assign(1, ',');
  }
  if (!is_none(separators)) {
    const auto pair = iterate(separators);
    if (pair->items.size() != 2) throw Error("tojson: separators must be two strings");
    style.item_separator = str(pair->items[0]);
    style.key_separator = str(pair->items[1]);
  }
  String text = to_json(input, style);
  return Value(std::move(text));
}

Value wordcount(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "wordcount").done();
  std::int64_t words = 0;
  bool in_word = false;
  const String text = str(input);
  for (std::size_t pos = 0; pos < text.size();) {
    const char32_t c = utf8::next(text, pos);
    const bool word = is_alnum(c) || c == '_';
    if (word && !in_word) ++words;
    in_word = word;
  }
  return Value(words);
}

// Cuts at the end of a word, unless `killwords` is set. A text that is only slightly too long is
// not cut.
Value truncate(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "truncate");
  const std::int64_t most = integer_of(reader.next("length", Value(std::int64_t{255})));
  const bool cuts_words = truthy(reader.next("killwords", Value(false)));
  const String end = str(reader.next("end", Value("...")));
  const Value leeway = reader.next("leeway", Value());
  reader.done();
  const std::int64_t spare = is_none(leeway) ? 5 : integer_of(leeway);
  const auto end_length = static_cast<std::int64_t>(utf8::length(end));
  if (most < end_length || spare < 0) throw Error("truncate: the length is below that of the end");
  String text = str(input);
  const auto length = static_cast<std::int64_t>(utf8::length(text));
  if (length - spare <= most) return Value(std::move(text));
  std::size_t kept = 0;
  for (std::int64_t i = 0; i < most - end_length; ++i) utf8::next(text, kept);
  text.resize(kept);
  const std::size_t space = cuts_words ? String::npos : text.rfind(' ');
  if (space != String::npos) text.resize(space);
  return Value(text + end);
}

String url_quoted(std::string_view text, bool in_query) {
  String out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !in_query);
    if (plain) {
      out += c;
    } else if (c == ' ' && in_query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

// Encodes a text, or a query given as a dict or as pairs.
Value urlencode(Interpreter&, const Value& input, Args& args) {
  ArgReader(args, "urlencode").done();
  const bool is_dict = input.as<Dict>() != nullptr;
  if (!is_dict && input.as<Sequence>() == nullptr) return Value(url_quoted(str(input), false));
  const auto pairs = iterate(is_dict ? items_of(input) : input);
  String out;
  for (const Value& pair : pairs->items) {
    spend_steps(1);
    const auto both = iterate(pair);
    if (both->items.size() != 2) throw Error("urlencode: a pair must have two items");
    if (!out.empty()) out += '&';
    out += url_quoted(str(both->items[0]), true) + "=" + url_quoted(str(both->items[1]), true);
  }
  return Value(std::move(out));
}

Value center(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "center");
  const std::int64_t width = integer_of(reader.next("width", Value(std::int64_t{80})));
  reader.done();
  return Value(centered(str(input), width));
}

Value format(Interpreter&, const Value& input, Args& args) {
  ArgReader reader(args, "format");
  Value values = make_tuple(reader.rest());
  if (!args.named.empty()) {
    auto dict = make_metered<Dict>();
    for (const auto& [name, value] : args.named) dict->set(Value(name), value);
    if (!values.as<Sequence>()->items.empty())
      throw Error("format takes values by place or by name, not both");
    values = make_dict(std::move(dict));
  }
  String text = format_percent(str(input), values);
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
      {"truncate", truncate},
      {"urlencode", urlencode},
      {"center", center},
      {"forceescape", on_text<escape>},
  };
  return kFilters;
}

FilterFunction find_filter(std::string_view name) {
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
