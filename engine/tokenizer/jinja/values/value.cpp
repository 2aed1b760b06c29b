#include "engine/tokenizer/jinja/values/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/tokenizer/jinja/values/error.h"
#include "engine/tokenizer/jinja/values/operations.h"

namespace tandem::jinja {
namespace {

// Returns the depth of a container whose contents have `depth`.
int one_deeper(int depth) {
  if (depth >= kMaxValueDepth) throw Error("values nested too deeply");
  return depth + 1;
}

Value make_sequence(Values items, bool is_tuple) {
  spend(items.size() * kItemUnits);
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return Value(
      make_metered<const Sequence>(Sequence{std::move(items), is_tuple, one_deeper(depth), false}));
}

String key_text(const Value& key) {
  if (const String* s = key.as<String>()) return "s" + *s;
  if (is_none(key)) return "n";
  if (is_float(key)) {
    const double d = double_of(key);
    if (d == std::floor(d) && std::abs(d) < 1e18)
      return String(fmt::format("i{}", static_cast<long long>(d)));
    return String(fmt::format("f{}", d));
  }
  if (is_number(key)) return String(fmt::format("i{}", integer_of(key)));  // True and 1: one key
  throw Error(fmt::format("unhashable type: '{}'", type_name(key)));
}

}  // namespace

std::shared_ptr<const Sequence> Value::shared_sequence() const {
  const auto* p = std::get_if<std::shared_ptr<const Sequence>>(&data_);
  return p == nullptr ? nullptr : *p;
}

Value make_list(Values items) {
  return make_sequence(std::move(items), false);
}

Value make_tuple(Values items) {
  return make_sequence(std::move(items), true);
}

Value make_group(Value grouper, Value list) {
  Values items{std::move(grouper), std::move(list)};
  const int depth = one_deeper(std::max(depth_of(items[0]), depth_of(items[1])));
  return Value(make_metered<const Sequence>(Sequence{std::move(items), true, depth, true}));
}

Value make_dict(std::shared_ptr<Dict> dict) {
  spend(dict->items.size() * kItemUnits);
  int depth = 0;
  for (const auto& [key, value] : dict->items) depth = std::max(depth, depth_of(value));
  dict->depth = one_deeper(depth);
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

Value make_function(std::string_view name, Function::Call call, const Value* self) {
  const int depth = one_deeper(self == nullptr ? 0 : depth_of(*self));
  return Value(make_metered<const Function>(Function{String(name), std::move(call), depth}));
}

Value make_undefined(std::string_view name) {
  return Value(Undefined{String(name)});
}

void Dict::set(const Value& key, Value value) {
  String text = key_text(key);
  spend(kStepUnits + text.size());
  const auto [it, fresh] = index.emplace(std::move(text), items.size());
  if (fresh) {
    items.emplace_back(key, std::move(value));
  } else {
    items[it->second].second = std::move(value);
  }
}

const Value* Dict::find(const Value& key) const {
  const String text = key_text(key);
  spend(kStepUnits + text.size());
  const auto it = index.find(text);
  return it == index.end() ? nullptr : &items[it->second].second;
}

const Value* Dict::find(std::string_view key) const {
  String text(1, 's');
  text += key;
  spend(kStepUnits + text.size());
  const auto it = index.find(text);
  return it == index.end() ? nullptr : &items[it->second].second;
}

}  // namespace tandem::jinja
