// Values as JSON text, with the spacing of Python's json.dumps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/tokenizer/jinja/text.h"
#include "engine/tokenizer/jinja/value.h"

namespace tandem::jinja {
namespace {

std::string number_text(const Value& value) {
  const double d = value.as_double();
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  return float_text(d);
}

std::string key_text(const Value& key) {
  if (const std::string* s = key.string()) return *s;
  if (key.is_none()) return "null";
  if (key.is_bool()) return key.truthy() ? "true" : "false";
  return key.is_float() ? number_text(key) : key.repr();
}

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  void write(const Value& value, int level) {
    if (value.is_none()) {
      out += "null";
    } else if (value.is_bool()) {
      out += value.truthy() ? "true" : "false";
    } else if (value.is_int()) {
      out += value.repr();
    } else if (value.is_float()) {
      out += number_text(value);
    } else if (const std::string* s = value.string()) {
      out += json_quoted(*s, style_.ascii);
    } else if (const Sequence* sequence = value.sequence()) {
      container('[', ']', sequence->items, level,
                [&](const Value& item) { write(item, level + 1); });
    } else if (const Dict* dict = value.dict()) {
      auto items = dict->items;
      if (style_.sort_keys)
        std::stable_sort(items.begin(), items.end(),
                         [](const auto& a, const auto& b) { return a.first.less(b.first); });
      container('{', '}', items, level, [&](const auto& item) {
        out += json_quoted(key_text(item.first), style_.ascii) + style_.key_separator;
        write(item.second, level + 1);
      });
    } else {
      throw Error(fmt::format("tojson: a {} is no JSON", value.type_name()));
    }
  }

  std::string out;

 private:
  void new_line(int level) {
    if (style_.indent < 0) return;
    out += '\n';
    out.append(static_cast<std::size_t>(style_.indent) * static_cast<std::size_t>(level), ' ');
  }
  template <typename Items, typename One>
  void container(char open, char close, const Items& items, int level, One&& one) {
    out += open;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out += style_.item_separator;
      first = false;
      new_line(level + 1);
      one(item);
    }
    if (!first) new_line(level);
    out += close;
  }

  const JsonStyle& style_;
};

}  // namespace

std::string to_json(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace tandem::jinja
