#include "engine/tokenizer/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/tokenizer/jinja/text.h"
#include "engine/tokenizer/utf8.h"

namespace tandem::jinja {
namespace {

int deepest(const Values& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  if (depth >= kMaxValueDepth) throw Error("values nested too deeply");
  return depth + 1;
}

std::string key_text(const Value& key) {
  if (const std::string* s = key.string()) return "s" + *s;
  if (key.is_none()) return "n";
  if (key.is_float()) {
    const double d = key.as_double();
    if (d == std::floor(d) && std::abs(d) < 1e18)
      return fmt::format("i{}", static_cast<long long>(d));
    return fmt::format("f{}", d);
  }
  if (key.is_number()) return fmt::format("i{}", key.as_int());  // True and 1 are one key
  throw Error(fmt::format("unhashable type: '{}'", key.type_name()));
}

void append_repr(const Values& items, std::string& out) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    out += items[i].repr();
  }
}

}  // namespace

Value Value::undefined(std::string name) {
  Value v;
  v.data_ = Undefined{std::move(name)};
  return v;
}

Value Value::list(Values items) {
  Value v;
  const int depth = deepest(items);
  v.data_ = std::make_shared<const Sequence>(Sequence{std::move(items), false, depth});
  return v;
}

Value Value::tuple(Values items) {
  Value v;
  const int depth = deepest(items);
  v.data_ = std::make_shared<const Sequence>(Sequence{std::move(items), true, depth});
  return v;
}

Value Value::dict(std::shared_ptr<Dict> dict) {
  int depth = 0;
  for (const auto& [key, value] : dict->items) depth = std::max(depth, value.depth());
  if (depth >= kMaxValueDepth) throw Error("values nested too deeply");
  dict->depth = depth + 1;
  Value v;
  v.data_ = std::shared_ptr<const Dict>(std::move(dict));
  return v;
}

Value Value::function(std::string name, std::function<Value(Interpreter&, Args&)> call,
                      const Value* self) {
  Value v;
  const int depth = self == nullptr ? 1 : self->depth() + 1;
  if (depth > kMaxValueDepth) throw Error("values nested too deeply");
  v.data_ = std::make_shared<const Function>(Function{std::move(name), std::move(call), depth});
  return v;
}

Value Value::from_json(const nlohmann::ordered_json& json, int depth) {
  if (depth > kMaxValueDepth / 2) throw Error("the input is nested too deeply");
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return Value(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
        return Value(json.get<double>());
      return Value(json.get<std::int64_t>());
    case nlohmann::ordered_json::value_t::number_integer:
      return Value(json.get<std::int64_t>());
    case nlohmann::ordered_json::value_t::number_float:
      return Value(json.get<double>());
    case nlohmann::ordered_json::value_t::string:
      return Value(json.get<std::string>());
    case nlohmann::ordered_json::value_t::array: {
      Values items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json(item, depth + 1));
      return list(std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      auto result = std::make_shared<Dict>();
      for (const auto& [key, value] : json.items())
        result->set(Value(key), from_json(value, depth + 1));
      return dict(std::move(result));
    }
    default:
      return {};
  }
}

double Value::as_double() const {
  if (const double* d = get<double>()) return *d;
  return static_cast<double>(as_int());
}

std::int64_t Value::as_int() const {
  if (const std::int64_t* i = get<std::int64_t>()) return *i;
  if (const bool* b = get<bool>()) return *b ? 1 : 0;
  throw Error(fmt::format("expected an integer, not {}", type_name()));
}

int Value::depth() const {
  if (const Sequence* s = sequence()) return s->depth;
  if (const Dict* d = dict()) return d->depth;
  if (const Function* f = function()) return f->depth;
  if (const Loop* l = loop()) return l->items->depth + 1;
  return 1;
}

const char* Value::type_name() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_string()) return "str";
  if (const Sequence* s = sequence()) return s->is_tuple ? "tuple" : "list";
  if (dict() != nullptr) return "dict";
  if (function() != nullptr) return "function";
  return name_space() != nullptr ? "namespace" : "loop";
}

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return as_double() != 0;
  if (const std::string* s = string()) return !s->empty();
  if (const Sequence* s = sequence()) return !s->items.empty();
  if (const Dict* d = dict()) return !d->items.empty();
  if (const Loop* l = loop()) return !l->items->items.empty();
  return true;
}

std::string Value::str() const {
  if (is_undefined()) return {};
  if (const std::string* s = string()) return *s;
  return repr();
}

std::string Value::repr() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "None";
  if (const bool* b = get<bool>()) return *b ? "True" : "False";
  if (is_int()) return fmt::format("{}", as_int());
  if (is_float()) return float_text(as_double());
  if (const std::string* s = string()) return python_quoted(*s);
  std::string out;
  if (const Sequence* s = sequence()) {
    out = s->is_tuple ? "(" : "[";
    append_repr(s->items, out);
    if (s->is_tuple && s->items.size() == 1) out += ',';
    return out + (s->is_tuple ? ')' : ']');
  }
  if (const Dict* d = dict()) {
    out = "{";
    for (const auto& [key, value] : d->items) {
      if (out.size() > 1) out += ", ";
      out += key.repr() + ": " + value.repr();
    }
    return out + '}';
  }
  throw Error(fmt::format("a {} cannot be printed", type_name()));
}

bool Value::equals(const Value& other) const {
  if (is_number() && other.is_number()) {
    if (is_float() || other.is_float()) return as_double() == other.as_double();
    return as_int() == other.as_int();
  }
  if (data_.index() != other.data_.index()) return false;
  if (is_undefined() || is_none()) return true;
  if (const std::string* s = string()) return *s == *other.string();
  if (const Sequence* a = sequence()) {
    const Sequence* b = other.sequence();
    return a->is_tuple == b->is_tuple &&
           std::equal(a->items.begin(), a->items.end(), b->items.begin(), b->items.end(),
                      [](const Value& x, const Value& y) { return x.equals(y); });
  }
  if (const Dict* a = dict()) {
    const Dict* b = other.dict();
    return a->items.size() == b->items.size() &&
           std::all_of(a->items.begin(), a->items.end(), [&](const auto& item) {
             const Value* found = b->find(item.first);
             return found != nullptr && found->equals(item.second);
           });
  }
  return function() == other.function() && name_space() == other.name_space() &&
         loop() == other.loop();
}

bool Value::less(const Value& other) const {
  if (is_number() && other.is_number()) {
    if (is_float() || other.is_float()) return as_double() < other.as_double();
    return as_int() < other.as_int();
  }
  if (is_string() && other.is_string()) return *string() < *other.string();  // by code point
  const Sequence* a = sequence();
  const Sequence* b = other.sequence();
  if (a == nullptr || b == nullptr || a->is_tuple != b->is_tuple)
    throw Error(fmt::format("{} and {} cannot be ordered", type_name(), other.type_name()));
  const std::size_t n = std::min(a->items.size(), b->items.size());
  for (std::size_t i = 0; i < n; ++i)
    if (!a->items[i].equals(b->items[i])) return a->items[i].less(b->items[i]);
  return a->items.size() < b->items.size();
}

std::size_t Value::length() const {
  if (is_undefined()) return 0;
  if (const std::string* s = string()) return utf8::length(*s);
  if (const Sequence* s = sequence()) return s->items.size();
  if (const Dict* d = dict()) return d->items.size();
  if (const Loop* l = loop()) return l->items->items.size();
  throw Error(fmt::format("a {} has no length", type_name()));
}

std::shared_ptr<const Sequence> Value::iterate() const {
  if (auto s = shared_sequence()) return s;
  Sequence result;
  if (const std::string* s = string()) {
    for (std::size_t pos = 0; pos < s->size();) {
      const std::size_t begin = pos;
      utf8::next(*s, pos);
      result.items.emplace_back(s->substr(begin, pos - begin));
    }
    result.depth = 2;
  } else if (const Dict* d = dict()) {
    for (const auto& [key, value] : d->items) result.items.push_back(key);
    result.depth = 2;
  } else if (!is_undefined()) {
    throw Error(fmt::format("a {} cannot be iterated", type_name()));
  }
  return std::make_shared<const Sequence>(std::move(result));
}

bool Value::contains(const Value& item) const {
  if (is_undefined()) return false;
  if (const std::string* s = string()) {
    if (!item.is_string())
      throw Error(fmt::format("'in' of a string needs a string, not {}", item.type_name()));
    return s->find(*item.string()) != std::string::npos;
  }
  if (const Dict* d = dict()) return d->find(item) != nullptr;
  const Sequence* s = sequence();
  if (s == nullptr) throw Error(fmt::format("'in' cannot look into a {}", type_name()));
  return std::any_of(s->items.begin(), s->items.end(),
                     [&](const Value& v) { return v.equals(item); });
}

void Dict::set(const Value& key, Value value) {
  const auto [it, fresh] = index.emplace(key_text(key), items.size());
  if (fresh) {
    items.emplace_back(key, std::move(value));
  } else {
    items[it->second].second = std::move(value);
  }
}

const Value* Dict::find(const Value& key) const {
  const auto it = index.find(key_text(key));
  return it == index.end() ? nullptr : &items[it->second].second;
}

const Value* Dict::find(std::string_view key) const {
  std::string text(1, 's');
  text += key;
  const auto it = index.find(text);
  return it == index.end() ? nullptr : &items[it->second].second;
}

}  // namespace tandem::jinja
