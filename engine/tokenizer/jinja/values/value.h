// The values that templates compute with: Python's, as far as templates use them. Immutable, except
// namespaces. Their memory is charged to the budget (budget.h). Their operations:
//   operations.h  truth, length, iteration, numbers, comparison
//   print.h       str and repr, JSON text
//   access.h      attributes, items, slices, methods
//   from_json.h   a request's JSON to values
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/tokenizer/jinja/values/budget.h"

namespace tandem::jinja {

class Value;
class Interpreter;
using Values = std::vector<Value, Metered<Value>>;
struct Args;

// The limit on nesting, because traversal (printing, comparing, freeing) is recursive.
inline constexpr int kMaxValueDepth = 128;

struct Undefined {
  String name;  // the name that was looked up, for messages
};
struct None {};
struct Sequence;  // a list or a tuple
struct Dict;
struct Function;
struct Namespace;
struct Loop;

class Value {
 public:
  enum class Type {  // in the order of the variant below
    undefined,
    none,
    boolean,
    integer,
    floating,
    string,
    sequence,
    dict,
    function,
    name_space,
    loop
  };

  Value() : data_(None{}) {}
  explicit Value(bool b) : data_(b) {}
  explicit Value(std::int64_t i) : data_(i) {}
  explicit Value(double d) : data_(d) {}
  explicit Value(String s) : data_(make_metered<const String>(std::move(s))) {}
  explicit Value(std::string_view s) : Value(String(s)) {}
  explicit Value(const char* s) : Value(String(s)) {}
  explicit Value(Undefined u) : data_(std::move(u)) {}
  template <typename T>
  explicit Value(std::shared_ptr<T> p) : data_(std::move(p)) {}

  Type type() const { return static_cast<Type>(data_.index()); }
  // Null if the value has another type. T: bool, std::int64_t, double, Undefined, String, Sequence,
  // Dict, Function, Namespace, Loop. The last two can be modified through it.
  template <typename T>
  auto* as() const;
  // Like as(), but shares ownership.
  std::shared_ptr<const Sequence> shared_sequence() const;

 private:
  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const String>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>,
               std::shared_ptr<const Function>, std::shared_ptr<Namespace>, std::shared_ptr<Loop>>
      data_;
};

// The arguments of a call, a filter or a test.
struct Args {
  Values positional;
  std::vector<std::pair<String, Value>, Metered<std::pair<String, Value>>> named;
};

struct Sequence {
  Values items;
  bool is_tuple = false;
  int depth = 1;
  bool is_group = false;  // a tuple of groupby: its items also have the names grouper and list
};
// Keeps the order of insertion. Keys are strings, numbers, booleans or None.
struct Dict {
  using Item = std::pair<Value, Value>;
  std::vector<Item, Metered<Item>> items;
  Names<std::size_t> index;  // keyed by the key's type and text
  int depth = 1;

  void set(const Value& key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
};
struct Function {
  using Call = std::function<Value(Interpreter&, Args&)>;
  String name;
  Call call;
  int depth = 1;
};
struct Namespace {
  Names<Value> members;
};
struct Loop {  // the variable `loop`
  std::shared_ptr<const Sequence> items;
  std::size_t index0 = 0;
  Values changed;               // the last arguments of loop.changed()
  std::size_t depth0 = 0;       // nesting depth of recursive loops
  Function::Call recurse = {};  // loop(items) of a recursive loop; empty: not recursive
};

// These throw Error if the value would be nested deeper than kMaxValueDepth.
Value make_list(Values items);
Value make_tuple(Values items);
Value make_group(Value grouper, Value list);
Value make_dict(std::shared_ptr<Dict> dict);
// `self` is a value that `call` holds.
Value make_function(std::string_view name, Function::Call call, const Value* self = nullptr);
Value make_undefined(std::string_view name);

template <typename T>
auto* Value::as() const {
  using Plain = std::variant<Undefined, None, bool, std::int64_t, double>;
  constexpr bool kIsPlain = []<typename... Ts>(std::variant<Ts...>*) {
    return (std::is_same_v<T, Ts> || ...);
  }(static_cast<Plain*>(nullptr));
  if constexpr (kIsPlain) {
    return std::get_if<T>(&data_);
  } else {
    constexpr bool kChanges = std::is_same_v<T, Namespace> || std::is_same_v<T, Loop>;
    using Held = std::conditional_t<kChanges, T, const T>;
    const auto* p = std::get_if<std::shared_ptr<Held>>(&data_);
    return p == nullptr ? static_cast<Held*>(nullptr) : p->get();
  }
}

}  // namespace tandem::jinja
