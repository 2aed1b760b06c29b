#include "engine/tokenizer/jinja/values/operations.h"

#include <fmt/format.h>

#include "engine/tokenizer/jinja/values/error.h"
#include "engine/tokenizer/utf8.h"

namespace tandem::jinja {

void spend_for(const Value& v) {
  if (const String* s = v.as<String>()) spend(s->size());
  if (const Sequence* s = v.as<Sequence>()) spend(s->items.size() * kItemUnits);
  if (const Dict* d = v.as<Dict>()) spend(d->items.size() * kItemUnits);
}

const char* type_name(const Value& v) {
  switch (v.type()) {
    case Value::Type::undefined:
      return "undefined";
    case Value::Type::none:
      return "NoneType";
    case Value::Type::boolean:
      return "bool";
    case Value::Type::integer:
      return "int";
    case Value::Type::floating:
      return "float";
    case Value::Type::string:
      return "str";
    case Value::Type::sequence:
      return v.as<Sequence>()->is_tuple ? "tuple" : "list";
    case Value::Type::dict:
      return "dict";
    case Value::Type::function:
      return "function";
    case Value::Type::name_space:
      return "namespace";
    case Value::Type::loop:
      return "loop";
  }
  return "value";
}

int depth_of(const Value& v) {
  if (const Sequence* s = v.as<Sequence>()) return s->depth;
  if (const Dict* d = v.as<Dict>()) return d->depth;
  if (const Function* f = v.as<Function>()) return f->depth;
  if (const Loop* l = v.as<Loop>()) return l->items->depth + 1;
  return 1;
}

bool truthy(const Value& v) {
  if (is_undefined(v) || is_none(v)) return false;
  if (is_number(v)) return double_of(v) != 0;
  if (const String* s = v.as<String>()) return !s->empty();
  if (const Sequence* s = v.as<Sequence>()) return !s->items.empty();
  if (const Dict* d = v.as<Dict>()) return !d->items.empty();
  if (const Loop* l = v.as<Loop>()) return !l->items->items.empty();
  return true;
}

double double_of(const Value& v) {
  if (const double* d = v.as<double>()) return *d;
  return static_cast<double>(integer_of(v));
}

std::int64_t integer_of(const Value& v) {
  if (const std::int64_t* i = v.as<std::int64_t>()) return *i;
  if (const bool* b = v.as<bool>()) return *b ? 1 : 0;
  throw Error(fmt::format("expected an integer, not {}", type_name(v)));
}

std::size_t length_of(const Value& v) {
  if (is_undefined(v)) return 0;
  if (const String* s = v.as<String>()) {
    spend(s->size());
    return utf8::length(*s);
  }
  if (const Sequence* s = v.as<Sequence>()) return s->items.size();
  if (const Dict* d = v.as<Dict>()) return d->items.size();
  if (const Loop* l = v.as<Loop>()) return l->items->items.size();
  throw Error(fmt::format("a {} has no length", type_name(v)));
}

std::shared_ptr<const Sequence> iterate(const Value& v) {
  if (auto s = v.shared_sequence()) return s;
  Sequence result;
  if (const String* s = v.as<String>()) {
    spend(s->size());
    for (std::size_t pos = 0; pos < s->size();) {
      const std::size_t begin = pos;
      utf8::next(*s, pos);
      result.items.emplace_back(std::string_view(*s).substr(begin, pos - begin));
    }
    result.depth = 2;
  } else if (const Dict* d = v.as<Dict>()) {
    spend(d->items.size() * kItemUnits);
    for (const auto& [key, value] : d->items) result.items.push_back(key);
    result.depth = 2;
  } else if (!is_undefined(v)) {
    throw Error(fmt::format("a {} cannot be iterated", type_name(v)));
  }
  return make_metered<const Sequence>(std::move(result));
}

}  // namespace tandem::jinja
