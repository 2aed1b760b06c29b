// Values as JSON text, with the spacing of Python's json.dumps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/tokenizer/jinja/values/error.h"
#include "engine/tokenizer/jinja/values/operations.h"
#include "engine/tokenizer/jinja/values/print.h"
#include "engine/tokenizer/jinja/values/text.h"

namespace tandem::jinja {
namespace {

String number_text(const Value& value) {
  const double d = double_of(value);
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  return float_text(d);
}

String key_text(const Value& key) {
  if (const String* s = key.as<String>()) return *s;
  if (is_none(key)) return "null";
  if (is_bool(key)) return truthy(key) ? "true" : "false";
  return is_float(key) ? number_text(key) : repr(key);
}

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  void write(const Value& value, int level) {
    spend(kStepUnits);
    if (is_none(value)) {
      out += "null";
    } else if (is_bool(value)) {
      out += truthy(value) ? "true" : "false";
    } else if (is_int(value)) {
      out += repr(value);
    } else if (is_float(value)) {
      out += number_text(value);
    } else if (const String* s = value.as<String>()) {
      out += json_quoted(*s, style_.ascii);
    } else if (const Sequence* sequence = value.as<Sequence>()) {
      container('[', ']', sequence->items, level,
                [&](const Value& item) { write(item, level + 1); });
    } else if (const Dict* dict = value.as<Dict>()) {
      auto items = dict->items;
      if (style_.sort_keys)
        std::stable_sort(items.begin(), items.end(),
                         [](const auto& a, const auto& b) { return less(a.first, b.first); });
      container('{', '}', items, level, [&](const auto& item) {
        out += json_quoted(key_text(item.first), style_.ascii) + style_.key_separator;
        write(item.second, level + 1);
      });
    } else {
      throw Error(fmt::format("tojson: a {} is no JSON", type_name(value)));
    }
  }

  String out;

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

String to_json(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace tandem::jinja
