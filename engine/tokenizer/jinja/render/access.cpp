// Attributes, subscripts and slices.
#include <fmt/format.h>

#include <algorithm>

#include "engine/tokenizer/jinja/render/access.h"
#include "engine/tokenizer/jinja/render/interpreter.h"
#include "engine/tokenizer/jinja/values/operations.h"
#include "engine/tokenizer/jinja/values/print.h"
#include "engine/tokenizer/jinja/values/value.h"
#include "engine/tokenizer/utf8.h"

namespace tandem::jinja {
namespace {

[[noreturn]] void fail_undefined(const Value& v) {
  throw Error(fmt::format("'{}' is undefined", v.as<Undefined>()->name));
}

Value integer(std::size_t n) {
  return Value(static_cast<std::int64_t>(n));
}

Value loop_attribute(const Value& self, std::string_view name) {
  const Loop& loop = *self.as<Loop>();
  const Values& items = loop.items->items;
  const std::size_t i = loop.index0;
  if (name == "index") return integer(i + 1);
  if (name == "index0") return integer(i);
  if (name == "revindex") return integer(items.size() - i);
  if (name == "revindex0") return integer(items.size() - i - 1);
  if (name == "first") return Value(i == 0);
  if (name == "last") return Value(i + 1 == items.size());
  if (name == "length") return integer(items.size());
  if (name == "depth") return integer(loop.depth0 + 1);
  if (name == "depth0") return integer(loop.depth0);
  if (name == "previtem")
    return i == 0 ? make_undefined("there is no previous item") : items[i - 1];
  if (name == "nextitem")
    return i + 1 == items.size() ? make_undefined("there is no next item") : items[i + 1];
  if (name == "cycle") {
    return make_function(
        "loop.cycle",
        [self](Interpreter&, Args& args) {
          if (args.positional.empty()) throw Error("loop.cycle needs arguments");
          return args.positional[self.as<Loop>()->index0 % args.positional.size()];
        },
        &self);
  }
  if (name == "changed") {
    return make_function(
        "loop.changed",
        [self](Interpreter&, Args& args) {
          Values& last = self.as<Loop>()->changed;
          const bool same = self.as<Loop>()->index0 > 0 && last.size() == args.positional.size() &&
                            std::equal(last.begin(), last.end(), args.positional.begin(),
                                       [](const Value& a, const Value& b) { return equals(a, b); });
          last = args.positional;
          return Value(!same);
        },
        &self);
  }
  return make_undefined(name);
}

// Returns the byte offset of character `index`.
std::size_t offset_of(const String& text, std::size_t index) {
  std::size_t pos = 0;
  for (; index > 0 && pos < text.size(); --index) utf8::next(text, pos);
  return pos;
}

}  // namespace

Value get_attribute(const Value& object, std::string_view name) {
  if (is_undefined(object)) fail_undefined(object);
  if (name.starts_with('_')) return make_undefined(name);  // hides Python's internal names
  if (object.as<Loop>() != nullptr) return loop_attribute(object, name);
  if (const Namespace* space = object.as<Namespace>()) {
    const auto it = space->members.find(name);
    return it == space->members.end() ? make_undefined(name) : it->second;
  }
  if (const Sequence* group = object.as<Sequence>(); group != nullptr && group->is_group) {
    if (name == "grouper") return group->items[0];
    if (name == "list") return group->items[1];
  }
  Value method = find_method(object, name);
  if (!is_undefined(method)) return method;
  const Dict* dict = object.as<Dict>();
  const Value* found = dict == nullptr ? nullptr : dict->find(std::string_view(name));
  return found == nullptr ? make_undefined(name) : *found;
}

Value get_item(const Value& object, const Value& key) {
  if (is_undefined(object)) fail_undefined(object);
  const String* name = key.as<String>();
  if (const Dict* dict = object.as<Dict>()) {
    const bool hashable =
        key.as<Sequence>() == nullptr && key.as<Dict>() == nullptr && !is_undefined(key);
    if (const Value* found = hashable ? dict->find(key) : nullptr) return *found;
    if (name != nullptr) return find_method(object, *name);
    return make_undefined(hashable ? str(key) : "an item");
  }
  if (name != nullptr) return get_attribute(object, *name);
  if ((is_string(object) || object.as<Sequence>() != nullptr) && (is_int(key) || is_bool(key))) {
    std::int64_t index = integer_of(key);
    const auto length = static_cast<std::int64_t>(length_of(object));
    if (index < 0) index += length;
    if (index < 0 || index >= length)
      return make_undefined(fmt::format("item {}", integer_of(key)));
    const auto i = static_cast<std::size_t>(index);
    if (const Sequence* s = object.as<Sequence>()) return s->items[i];
    const String& text = *object.as<String>();
    const std::size_t begin = offset_of(text, i);
    std::size_t end = begin;
    utf8::next(text, end);
    return Value(text.substr(begin, end - begin));
  }
  return make_undefined(is_undefined(key) ? "an item" : str(key));
}

Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (is_undefined(object)) fail_undefined(object);
  if (!is_string(object) && object.as<Sequence>() == nullptr) return make_undefined("a slice");
  const std::int64_t stride = is_none(step) ? 1 : integer_of(step);
  if (stride == 0) throw Error("a slice with step 0");
  const auto length = static_cast<std::int64_t>(length_of(object));
  const bool forward = stride > 0;
  const std::int64_t low = forward ? 0 : -1;
  const std::int64_t high = forward ? length : length - 1;
  auto bound = [&](const Value& v, std::int64_t fallback) {
    if (is_none(v)) return fallback;
    std::int64_t i = integer_of(v);
    if (i < 0) i += length;  // cannot overflow: length >= 0
    return std::clamp(i, low, high);
  };
  const std::int64_t first = bound(start, forward ? low : high);
  const std::int64_t last = bound(stop, forward ? high : low);
  if (const String* text = object.as<String>(); text != nullptr && stride == 1) {
    if (first >= last) return Value("");
    const std::size_t begin = offset_of(*text, static_cast<std::size_t>(first));
    const String rest = text->substr(begin);
    return Value(rest.substr(0, offset_of(rest, static_cast<std::size_t>(last - first))));
  }
  const std::shared_ptr<const Sequence> items = iterate(object);
  Values chosen;
  for (std::int64_t i = first; forward ? i < last : i > last;) {
    chosen.push_back(items->items[static_cast<std::size_t>(i)]);
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  if (const Sequence* s = object.as<Sequence>())
    return s->is_tuple ? make_tuple(std::move(chosen)) : make_list(std::move(chosen));
  String text;
  for (const Value& c : chosen) text += *c.as<String>();
  return Value(std::move(text));
}

}  // namespace tandem::jinja
