// The methods of Python's str, dict and list that templates call.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "engine/tokenizer/jinja/render/access.h"
#include "engine/tokenizer/jinja/render/builtins.h"
#include "engine/tokenizer/jinja/render/interpreter.h"
#include "engine/tokenizer/jinja/values/search.h"
#include "engine/tokenizer/jinja/values/text.h"
#include "engine/tokenizer/jinja/values/value.h"
#include "engine/tokenizer/utf8.h"

namespace tandem::jinja {
namespace {

using Method = Value (*)(Interpreter&, const Value& self, ArgReader& args);
struct Entry {
  std::string_view name;
  Method method;
};

const String& text_of(const Value& v, std::string_view what) {
  if (!is_string(v)) throw Error(fmt::format("{} must be a string, not {}", what, type_name(v)));
  return *v.as<String>();
}

template <typename Left, typename Right>
Value strip(const Value& self, ArgReader& args, Left&& left, Right&& right) {
  const Value chars = args.next("chars", Value());
  std::string_view s = *self.as<String>();
  if (is_none(chars)) {
    s = right(left(s, nullptr), nullptr);
  } else {
    const String& set = text_of(chars, "strip");
    s = right(left(s, &set), &set);
  }
  return Value(s);
}
std::string_view left_of(std::string_view s, const String* chars) {
  return chars == nullptr ? strip_left(s) : strip_left(s, *chars);
}
std::string_view right_of(std::string_view s, const String* chars) {
  return chars == nullptr ? strip_right(s) : strip_right(s, *chars);
}
std::string_view unchanged(std::string_view s, const String*) {
  return s;
}

Value str_strip(Interpreter&, const Value& self, ArgReader& args) {
  return strip(self, args, left_of, right_of);
}
Value str_lstrip(Interpreter&, const Value& self, ArgReader& args) {
  return strip(self, args, left_of, unchanged);
}
Value str_rstrip(Interpreter&, const Value& self, ArgReader& args) {
  return strip(self, args, unchanged, right_of);
}

// Splits at runs of white space; no empty parts at the ends.
Values split_space(std::string_view s, std::int64_t max) {
  Values parts;
  s = strip_left(s);
  while (!s.empty()) {
    if (max >= 0 && static_cast<std::int64_t>(parts.size()) == max) {
      parts.emplace_back(s);
      break;
    }
    std::size_t end = 0;
    while (end < s.size()) {
      std::size_t after = end;
      if (is_space(utf8::next(s, after))) break;
      end = after;
    }
    parts.emplace_back(s.substr(0, end));
    s = strip_left(s.substr(end));
  }
  return parts;
}

Values split_space_from_right(std::string_view s, std::int64_t max) {
  if (max < 0) return split_space(s, max);
  Values parts;
  s = strip_right(s);
  while (!s.empty()) {
    if (static_cast<std::int64_t>(parts.size()) == max) {
      parts.emplace_back(s);
      break;
    }
    std::size_t begin = s.size();
    while (begin > 0) {
      const std::size_t before = utf8::previous(s, begin);
      std::size_t pos = before;
      if (is_space(utf8::next(s, pos))) break;
      begin = before;
    }
    parts.emplace_back(s.substr(begin));
    s = strip_right(s.substr(0, begin));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Value split(Interpreter&, const Value& self, ArgReader& args, bool from_right) {
  const Value separator = args.next("sep", Value());
  const std::int64_t max = integer_of(args.next("maxsplit", Value(std::int64_t{-1})));
  std::string_view s = *self.as<String>();
  if (is_none(separator)) {
    spend_steps(s.size() / 2);
    return make_list(from_right ? split_space_from_right(s, max) : split_space(s, max));
  }
  const String& mark = text_of(separator, "split: sep");
  if (mark.empty()) throw Error("split: empty separator");
  std::size_t begin = 0;  // of the unsplit rest
  std::size_t end = s.size();
  Values parts;
  for (const std::size_t at : find_all(s, mark, max, from_right)) {
    const std::size_t after = at + mark.size();
    parts.emplace_back(from_right ? s.substr(after, end - after) : s.substr(begin, at - begin));
    (from_right ? end : begin) = from_right ? at : after;
  }
  parts.emplace_back(s.substr(begin, end - begin));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return make_list(std::move(parts));
}
Value str_split(Interpreter& in, const Value& self, ArgReader& args) {
  return split(in, self, args, false);
}
Value str_rsplit(Interpreter& in, const Value& self, ArgReader& args) {
  return split(in, self, args, true);
}

Value str_splitlines(Interpreter&, const Value& self, ArgReader& args) {
  const bool keep = truthy(args.next("keepends", Value(false)));
  const String& s = *self.as<String>();
  spend_steps(s.size() / 2);
  Values lines;
  std::size_t begin = 0;
  for (std::size_t pos = 0; pos < s.size();) {
    const std::size_t end = pos;
    const char32_t c = utf8::next(s, pos);
    const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                      c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    if (c == '\r' && pos < s.size() && s[pos] == '\n') ++pos;
    lines.emplace_back(s.substr(begin, (keep ? pos : end) - begin));
    begin = pos;
  }
  if (begin < s.size()) lines.emplace_back(s.substr(begin));
  return make_list(std::move(lines));
}

// startswith and endswith accept one text or a tuple of them.
template <typename Matches>
Value has_affix(ArgReader& args, Matches&& matches) {
  const Value affix = args.require("prefix");
  if (const Sequence* choices = affix.as<Sequence>())
    return Value(std::any_of(choices->items.begin(), choices->items.end(),
                             [&](const Value& v) { return matches(text_of(v, "startswith")); }));
  return Value(matches(text_of(affix, "startswith")));
}
Value str_startswith(Interpreter&, const Value& self, ArgReader& args) {
  return has_affix(args, [&](const String& s) { return self.as<String>()->starts_with(s); });
}
Value str_endswith(Interpreter&, const Value& self, ArgReader& args) {
  return has_affix(args, [&](const String& s) { return self.as<String>()->ends_with(s); });
}
Value str_removeprefix(Interpreter&, const Value& self, ArgReader& args) {
  const Value affix = args.require("prefix");
  std::string_view s = *self.as<String>();
  if (const String& a = text_of(affix, "removeprefix"); s.starts_with(a)) s.remove_prefix(a.size());
  return Value(s);
}
Value str_removesuffix(Interpreter&, const Value& self, ArgReader& args) {
  const Value affix = args.require("suffix");
  std::string_view s = *self.as<String>();
  if (const String& a = text_of(affix, "removesuffix"); s.ends_with(a)) s.remove_suffix(a.size());
  return Value(s);
}

Value str_upper(Interpreter&, const Value& self, ArgReader&) {
  return Value(to_upper(*self.as<String>()));
}
Value str_lower(Interpreter&, const Value& self, ArgReader&) {
  return Value(to_lower(*self.as<String>()));
}
Value str_title(Interpreter&, const Value& self, ArgReader&) {
  return Value(to_title(*self.as<String>()));
}
Value str_capitalize(Interpreter&, const Value& self, ArgReader&) {
  return Value(capitalize(*self.as<String>()));
}

Value str_replace(Interpreter&, const Value& self, ArgReader& args) {
  const Value from = args.require("old");
  const Value to = args.require("new");
  return Value(replace_text(*self.as<String>(), text_of(from, "replace"), text_of(to, "replace"),
                            integer_of(args.next("count", Value(std::int64_t{-1})))));
}

// Converts a byte offset to a position in characters.
Value position(const String& s, std::size_t at) {
  if (at == String::npos) return Value(std::int64_t{-1});
  return Value(static_cast<std::int64_t>(utf8::length(std::string_view(s).substr(0, at))));
}
Value str_find(Interpreter&, const Value& self, ArgReader& args) {
  const Value what = args.require("sub");
  return position(*self.as<String>(), find_first(*self.as<String>(), text_of(what, "find")));
}
Value str_rfind(Interpreter&, const Value& self, ArgReader& args) {
  const Value what = args.require("sub");
  return position(*self.as<String>(), find_last(*self.as<String>(), text_of(what, "rfind")));
}
Value str_index(Interpreter&, const Value& self, ArgReader& args) {
  const Value what = args.require("sub");
  const std::size_t at = find_first(*self.as<String>(), text_of(what, "index"));
  if (at == String::npos) throw Error("index: substring not found");
  return position(*self.as<String>(), at);
}
Value str_count(Interpreter&, const Value& self, ArgReader& args) {
  const Value what = args.require("sub");
  const String& s = *self.as<String>();
  const String& part = text_of(what, "count");
  if (part.empty()) return Value(static_cast<std::int64_t>(utf8::length(s) + 1));
  return Value(static_cast<std::int64_t>(find_all(s, part, -1).size()));
}
Value str_rindex(Interpreter&, const Value& self, ArgReader& args) {
  const Value what = args.require("sub");
  const std::size_t at = find_last(*self.as<String>(), text_of(what, "rindex"));
  if (at == String::npos) throw Error("rindex: substring not found");
  return position(*self.as<String>(), at);
}

// Returns the text before the separator, the separator, and the text after it.
Value partition(const Value& self, ArgReader& args, bool from_right) {
  const Value given = args.require("sep");
  const String& mark = text_of(given, "partition: sep");
  if (mark.empty()) throw Error("partition: empty separator");
  const std::string_view s = *self.as<String>();
  const std::size_t at = from_right ? find_last(s, mark) : find_first(s, mark);
  if (at == String::npos) {
    return from_right ? make_tuple({Value(""), Value(""), self})
                      : make_tuple({self, Value(""), Value("")});
  }
  return make_tuple({Value(s.substr(0, at)), given, Value(s.substr(at + mark.size()))});
}
Value str_partition(Interpreter&, const Value& self, ArgReader& args) {
  return partition(self, args, false);
}
Value str_rpartition(Interpreter&, const Value& self, ArgReader& args) {
  return partition(self, args, true);
}

template <typename Lay>
Value laid_out(ArgReader& args, Lay&& lay) {
  const std::int64_t width = integer_of(args.require("width"));
  const Value fill = args.next("fillchar", Value(" "));
  if (utf8::length(text_of(fill, "fillchar")) != 1) throw Error("fillchar must be one character");
  return Value(lay(width, *fill.as<String>()));
}
Value str_center(Interpreter&, const Value& self, ArgReader& args) {
  return laid_out(args, [&](std::int64_t width, const String& fill) {
    return centered(*self.as<String>(), width, fill);
  });
}
Value str_ljust(Interpreter&, const Value& self, ArgReader& args) {
  return laid_out(args, [&](std::int64_t width, const String& fill) {
    return padded(*self.as<String>(), width, '<', fill);
  });
}
Value str_rjust(Interpreter&, const Value& self, ArgReader& args) {
  return laid_out(args, [&](std::int64_t width, const String& fill) {
    return padded(*self.as<String>(), width, '>', fill);
  });
}
Value str_zfill(Interpreter&, const Value& self, ArgReader& args) {
  const std::int64_t width = integer_of(args.require("width"));
  const std::string_view s = *self.as<String>();
  const std::size_t sign = s.starts_with('-') || s.starts_with('+') ? 1 : 0;
  return Value(String(s.substr(0, sign)) +
               padded(s.substr(sign), width - static_cast<std::int64_t>(sign), '>', "0"));
}

Value str_join(Interpreter&, const Value& self, ArgReader& args) {
  const Value items = args.require("iterable");
  String text;
  bool first = true;
  const auto source = iterate(items);  // keeps the items alive during the loop
  for (const Value& item : source->items) {
    spend_steps(1);
    if (!first) text += *self.as<String>();
    first = false;
    text += text_of(item, "join: an item");
  }
  return Value(std::move(text));
}

template <typename Holds>
Value all_characters(const Value& self, Holds&& holds) {
  const String& s = *self.as<String>();
  spend(4 * s.size());  // charged extra, because categories are looked up in large tables
  for (std::size_t pos = 0; pos < s.size();)
    if (!holds(utf8::next(s, pos))) return Value(false);
  return Value(!s.empty());
}
Value str_isdigit(Interpreter&, const Value& self, ArgReader&) {
  return all_characters(self, [](char32_t c) { return is_digit(c); });
}
Value str_isalpha(Interpreter&, const Value& self, ArgReader&) {
  return all_characters(self, is_alpha);
}
Value str_isalnum(Interpreter&, const Value& self, ArgReader&) {
  return all_characters(self, is_alnum);
}
Value str_isspace(Interpreter&, const Value& self, ArgReader&) {
  return all_characters(self, is_space);
}
Value str_isupper(Interpreter&, const Value& self, ArgReader&) {
  const String& s = *self.as<String>();
  return Value(s != to_lower(s) && s == to_upper(s));
}
Value str_islower(Interpreter&, const Value& self, ArgReader&) {
  const String& s = *self.as<String>();
  return Value(s != to_upper(s) && s == to_lower(s));
}

Value dict_items(Interpreter&, const Value& self, ArgReader&) {
  return items_of(self);
}
Value dict_keys(Interpreter&, const Value& self, ArgReader&) {
  spend_for(self);
  Values keys;
  for (const auto& [key, value] : self.as<Dict>()->items) keys.push_back(key);
  return make_list(std::move(keys));
}
Value dict_values(Interpreter&, const Value& self, ArgReader&) {
  spend_for(self);
  Values values;
  for (const auto& [key, value] : self.as<Dict>()->items) values.push_back(value);
  return make_list(std::move(values));
}
Value dict_get(Interpreter&, const Value& self, ArgReader& args) {
  const Value key = args.require("key");
  const Value fallback = args.next("default", Value());
  const Value* found = self.as<Dict>()->find(key);
  return found == nullptr ? fallback : *found;
}
Value same(Interpreter&, const Value& self, ArgReader&) {
  return self;
}

Value list_index(Interpreter&, const Value& self, ArgReader& args) {
  const Value item = args.require("value");
  const Values& items = self.as<Sequence>()->items;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (equals(items[i], item)) return Value(static_cast<std::int64_t>(i));
  throw Error("index: the value is not in the list");
}
Value list_count(Interpreter&, const Value& self, ArgReader& args) {
  const Value item = args.require("value");
  const Values& items = self.as<Sequence>()->items;
  return Value(static_cast<std::int64_t>(
      std::count_if(items.begin(), items.end(), [&](const Value& v) { return equals(v, item); })));
}

Value str_format(Interpreter&, const Value& self, ArgReader& args) {
  String text = format_braces(*self.as<String>(), args);
  return Value(std::move(text));
}

constexpr std::array kStrMethods = {
    Entry{"strip", str_strip},           Entry{"lstrip", str_lstrip},
    Entry{"rstrip", str_rstrip},         Entry{"split", str_split},
    Entry{"rsplit", str_rsplit},         Entry{"splitlines", str_splitlines},
    Entry{"startswith", str_startswith}, Entry{"endswith", str_endswith},
    Entry{"upper", str_upper},           Entry{"lower", str_lower},
    Entry{"title", str_title},           Entry{"capitalize", str_capitalize},
    Entry{"replace", str_replace},       Entry{"find", str_find},
    Entry{"rfind", str_rfind},           Entry{"index", str_index},
    Entry{"count", str_count},           Entry{"join", str_join},
    Entry{"format", str_format},         Entry{"removeprefix", str_removeprefix},
    Entry{"isdigit", str_isdigit},       Entry{"removesuffix", str_removesuffix},
    Entry{"isalpha", str_isalpha},       Entry{"isalnum", str_isalnum},
    Entry{"isspace", str_isspace},       Entry{"isupper", str_isupper},
    Entry{"islower", str_islower},       Entry{"partition", str_partition},
    Entry{"rpartition", str_rpartition}, Entry{"center", str_center},
    Entry{"ljust", str_ljust},           Entry{"rjust", str_rjust},
    Entry{"zfill", str_zfill},           Entry{"rindex", str_rindex},
    Entry{"casefold", str_lower},
};
constexpr std::array kDictMethods = {
    Entry{"items", dict_items}, Entry{"keys", dict_keys}, Entry{"values", dict_values},
    Entry{"get", dict_get},     Entry{"copy", same},
};
constexpr std::array kListMethods = {Entry{"index", list_index}, Entry{"count", list_count},
                                     Entry{"copy", same}};

// Python's other methods. Most modify their object, which the sandbox of templates forbids.
constexpr std::array<std::string_view, 34> kOtherMethods = {
    "encode",    "expandtabs",  "format_map", "isascii",    "isdecimal",  "isidentifier",
    "isnumeric", "isprintable", "istitle",    "maketrans",  "swapcase",   "translate",
    "clear",     "fromkeys",    "pop",        "popitem",    "setdefault", "update",
    "append",    "extend",      "insert",     "remove",     "reverse",    "sort",
    "hex",       "bit_length",  "conjugate",  "is_integer", "to_bytes",   "from_bytes",
    "numerator", "imag",        "real",       "denominator"};

template <std::size_t N>
const Entry* find_in(const std::array<Entry, N>& table, std::string_view name) {
  const auto it = std::find_if(table.begin(), table.end(),
                               [&](const Entry& entry) { return entry.name == name; });
  return it == table.end() ? nullptr : &*it;
}

// Whether Python's type of `self` has the i-th of the other methods.
bool python_has(const Value& self, std::size_t i) {
  if (is_string(self)) return i < 12;
  if (self.as<Dict>() != nullptr) return i >= 12 && i < 18;
  if (const Sequence* s = self.as<Sequence>())
    return !s->is_tuple && (i == 12 || i == 14 || (i >= 18 && i < 24));
  return is_number(self) && i >= 24;
}

}  // namespace

Value find_method(const Value& self, std::string_view name) {
  const Entry* entry = nullptr;
  if (is_string(self)) entry = find_in(kStrMethods, name);
  if (self.as<Dict>() != nullptr) entry = find_in(kDictMethods, name);
  if (self.as<Sequence>() != nullptr) entry = find_in(kListMethods, name);
  if (entry == nullptr) {
    const auto other = std::find(kOtherMethods.begin(), kOtherMethods.end(), name);
    if (other != kOtherMethods.end() &&
        python_has(self, static_cast<std::size_t>(other - kOtherMethods.begin())))
      throw Error(fmt::format("{}.{} is not supported", type_name(self), name));
    return make_undefined(name);
  }
  return make_function(
      name,
      [self, entry](Interpreter& interpreter, Args& args) {
        spend_for(self);
        ArgReader reader(args, entry->name);
        Value result = entry->method(interpreter, self, reader);
        reader.done();
        return result;
      },
      &self);
}

}  // namespace tandem::jinja
