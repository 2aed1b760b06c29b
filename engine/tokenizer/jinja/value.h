// The values that templates compute with: Python's, as far as templates use them. Immutable, except
// namespaces.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "engine/tokenizer/jinja/lexer.h"

namespace tandem::jinja {

class Value;
class Interpreter;
using Values = std::vector<Value>;

// The arguments of a call, a filter or a test.
struct Args {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

// How deep values may nest: what walks them (printing, comparing, freeing) recurses.
inline constexpr int kMaxValueDepth = 128;

struct Undefined {
  std::string name;  // what was looked up, for messages
};
struct None {};
struct Sequence {
  Values items;
  bool is_tuple = false;
  int depth = 1;
};
struct Dict;
struct Function {
  std::string name;
  std::function<Value(Interpreter&, Args&)> call;
  int depth = 1;
};
struct Namespace {
  std::unordered_map<std::string, Value> members;
};
struct Loop {  // the variable `loop`
  std::shared_ptr<const Sequence> items;
  std::size_t index0 = 0;
  std::vector<Value> changed;  // the last arguments of loop.changed()
};

class Value {
 public:
  Value() : data_(None{}) {}
  explicit Value(bool b) : data_(b) {}
  explicit Value(std::int64_t i) : data_(i) {}
  explicit Value(double d) : data_(d) {}
  explicit Value(std::string s) : data_(std::make_shared<const std::string>(std::move(s))) {}
  explicit Value(std::string_view s) : Value(std::string(s)) {}
  explicit Value(const char* s) : Value(std::string(s)) {}
  explicit Value(std::shared_ptr<Namespace> n) : data_(std::move(n)) {}
  explicit Value(std::shared_ptr<Loop> l) : data_(std::move(l)) {}

  static Value undefined(std::string name);
  static Value list(Values items);
  static Value tuple(Values items);
  static Value dict(std::shared_ptr<Dict> dict);
  static Value function(std::string name, std::function<Value(Interpreter&, Args&)> call,
                        const Value* self = nullptr);
  // Throws Error when nested deeper than kMaxValueDepth.
  static Value from_json(const nlohmann::ordered_json& json, int depth = 0);

  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  bool is_bool() const { return get<bool>() != nullptr; }
  bool is_int() const { return get<std::int64_t>() != nullptr; }
  bool is_float() const { return get<double>() != nullptr; }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_string() const { return get<std::shared_ptr<const std::string>>() != nullptr; }

  // Null if the value is something else.
  const std::string* string() const { return pointer<const std::string>(); }
  const Sequence* sequence() const { return pointer<const Sequence>(); }  // list or tuple
  const Dict* dict() const { return pointer<const Dict>(); }
  const Function* function() const { return pointer<const Function>(); }
  Namespace* name_space() const { return pointer<Namespace>(); }
  Loop* loop() const { return pointer<Loop>(); }
  const Undefined* undefined_info() const { return get<Undefined>(); }
  std::shared_ptr<const Sequence> shared_sequence() const {
    const auto* p = get<std::shared_ptr<const Sequence>>();
    return p == nullptr ? nullptr : *p;
  }
  // bool, int and float, as a number; throws Error for others.
  double as_double() const;
  // bool and int; throws Error for others.
  std::int64_t as_int() const;

  int depth() const;
  const char* type_name() const;  // as Python calls it
  bool truthy() const;
  std::string str() const;
  std::string repr() const;
  bool equals(const Value& other) const;
  // Throws Error when Python cannot order the two.
  bool less(const Value& other) const;
  // Throws Error if there is none.
  std::size_t length() const;
  // The items that a loop sees; throws Error if the value cannot be iterated.
  std::shared_ptr<const Sequence> iterate() const;
  bool contains(const Value& item) const;

 private:
  template <typename T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  template <typename T>
  T* pointer() const {
    const auto* p = get<std::shared_ptr<T>>();
    return p == nullptr ? nullptr : p->get();
  }

  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>,
               std::shared_ptr<const Function>, std::shared_ptr<Namespace>, std::shared_ptr<Loop>>
      data_;
};

// Keeps the order of insertion. Keys are strings, numbers, booleans or None.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  std::unordered_map<std::string, std::size_t> index;  // by the key's type and text
  int depth = 1;

  void set(const Value& key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
};

// object.name and object[key], with Jinja's fallbacks from one to the other; undefined if there is
// nothing. Throws Error on undefined objects and on Python methods that are not implemented.
Value get_attribute(const Value& object, const std::string& name);
Value get_item(const Value& object, const Value& key);
// object[start:stop:step]; None stands for a part left out.
Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step);

// The method of a built-in type, bound to `self`; undefined if it has none of that name.
Value find_method(const Value& self, const std::string& name);

struct JsonStyle {
  int indent = -1;  // -1: on one line
  bool ascii = false;
  bool sort_keys = false;
  std::string item_separator = ", ", key_separator = ": ";
};
std::string to_json(const Value& value, const JsonStyle& style);

}  // namespace tandem::jinja
