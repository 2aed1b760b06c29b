// Attributes, subscripts and slices.
#include <fmt/format.h>

#include <algorithm>

#include "engine/tokenizer/jinja/interpreter.h"
#include "engine/tokenizer/jinja/value.h"
#include "engine/tokenizer/utf8.h"

namespace tandem::jinja {
namespace {

[[noreturn]] void fail_undefined(const Value& v) {
  throw Error(fmt::format("'{}' is undefined", v.undefined_info()->name));
}

Value integer(std::size_t n) {
  return Value(static_cast<std::int64_t>(n));
}

Value loop_attribute(const Value& self, const std::string& name) {
  const Loop& loop = *self.loop();
  const Values& items = loop.items->items;
  const std::size_t i = loop.index0;
  if (name == "index") return integer(i + 1);
  if (name == "index0") return integer(i);
  if (name == "revindex") return integer(items.size() - i);
  if (name == "revindex0") return integer(items.size() - i - 1);
  if (name == "first") return Value(i == 0);
  if (name == "last") return Value(i + 1 == items.size());
  if (name == "length") return integer(items.size());
  if (name == "depth") return integer(1);  // it counts recursive loops, which there are none of
  if (name == "depth0") return integer(0);
  if (name == "previtem")
    return i == 0 ? Value::undefined("there is no previous item") : items[i - 1];
  if (name == "nextitem")
    return i + 1 == items.size() ? Value::undefined("there is no next item") : items[i + 1];
  if (name == "cycle") {
    return Value::function(
        "loop.cycle",
        [self](Interpreter&, Args& args) {
          if (args.positional.empty()) throw Error("loop.cycle needs arguments");
          return args.positional[self.loop()->index0 % args.positional.size()];
        },
        &self);
  }
  if (name == "changed") {
    return Value::function(
        "loop.changed",
        [self](Interpreter&, Args& args) {
          Values& last = self.loop()->changed;
          const bool same = self.loop()->index0 > 0 && last.size() == args.positional.size() &&
                            std::equal(last.begin(), last.end(), args.positional.begin(),
                                       [](const Value& a, const Value& b) { return a.equals(b); });
          last = args.positional;
          return Value(!same);
        },
        &self);
  }
  return Value::undefined(name);
}

// Where the character number `index` of a text begins.
std::size_t offset_of(const std::string& text, std::size_t index) {
  std::size_t pos = 0;
  for (; index > 0 && pos < text.size(); --index) utf8::next(text, pos);
  return pos;
}

}  // namespace

Value get_attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) fail_undefined(object);
  if (name.starts_with('_')) return Value::undefined(name);  // Python's internals
  if (object.loop() != nullptr) return loop_attribute(object, name);
  if (const Namespace* space = object.name_space()) {
    const auto it = space->members.find(name);
    return it == space->members.end() ? Value::undefined(name) : it->second;
  }
  Value method = find_method(object, name);
  if (!method.is_undefined()) return method;
  const Dict* dict = object.dict();
  const Value* found = dict == nullptr ? nullptr : dict->find(std::string_view(name));
  return found == nullptr ? Value::undefined(name) : *found;
}

Value get_item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(object);
  const std::string* name = key.string();
  if (const Dict* dict = object.dict()) {
    const bool hashable = key.sequence() == nullptr && key.dict() == nullptr && !key.is_undefined();
    if (const Value* found = hashable ? dict->find(key) : nullptr) return *found;
    if (name != nullptr) return find_method(object, *name);
    return Value::undefined(hashable ? key.str() : "an item");
  }
  if (name != nullptr) return get_attribute(object, *name);
  if ((object.is_string() || object.sequence() != nullptr) && (key.is_int() || key.is_bool())) {
    std::int64_t index = key.as_int();
    const auto length = static_cast<std::int64_t>(object.length());
    if (index < 0) index += length;
    if (index < 0 || index >= length) return Value::undefined(fmt::format("item {}", key.as_int()));
    const auto i = static_cast<std::size_t>(index);
    if (const Sequence* s = object.sequence()) return s->items[i];
    const std::string& text = *object.string();
    const std::size_t begin = offset_of(text, i);
    std::size_t end = begin;
    utf8::next(text, end);
    return Value(text.substr(begin, end - begin));
  }
  return Value::undefined(key.is_undefined() ? "an item" : key.str());
}

Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) fail_undefined(object);
  if (!object.is_string() && object.sequence() == nullptr) return Value::undefined("a slice");
  const std::int64_t stride = step.is_none() ? 1 : step.as_int();
  if (stride == 0) throw Error("a slice with step 0");
  const auto length = static_cast<std::int64_t>(object.length());
  const bool forward = stride > 0;
  const std::int64_t low = forward ? 0 : -1;
  const std::int64_t high = forward ? length : length - 1;
  auto bound = [&](const Value& v, std::int64_t fallback) {
    if (v.is_none()) return fallback;
    std::int64_t i = v.as_int();
    if (i < 0) i += length;  // cannot overflow: length >= 0
    return std::clamp(i, low, high);
  };
  const std::int64_t first = bound(start, forward ? low : high);
  const std::int64_t last = bound(stop, forward ? high : low);
  if (const std::string* text = object.string(); text != nullptr && stride == 1) {
    if (first >= last) return Value("");
    const std::size_t begin = offset_of(*text, static_cast<std::size_t>(first));
    const std::string rest = text->substr(begin);
    return Value(rest.substr(0, offset_of(rest, static_cast<std::size_t>(last - first))));
  }
  const std::shared_ptr<const Sequence> items = object.iterate();
  Values chosen;
  for (std::int64_t i = first; forward ? i < last : i > last;) {
    chosen.push_back(items->items[static_cast<std::size_t>(i)]);
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  if (const Sequence* s = object.sequence())
    return s->is_tuple ? Value::tuple(std::move(chosen)) : Value::list(std::move(chosen));
  std::string text;
  for (const Value& c : chosen) text += *c.string();
  return Value(std::move(text));
}

}  // namespace tandem::jinja
