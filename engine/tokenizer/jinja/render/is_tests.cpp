// The tests of the operator "is".
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "engine/tokenizer/jinja/render/builtins.h"
#include "engine/tokenizer/jinja/render/interpreter.h"
#include "engine/tokenizer/jinja/syntax/ast.h"
#include "engine/tokenizer/jinja/values/print.h"
#include "engine/tokenizer/jinja/values/text.h"

namespace tandem::jinja {
namespace {

// Adapts a predicate without arguments.
template <bool (*Predicate)(const Value&)>
bool plain(Interpreter&, const Value& v, Args& args) {
  ArgReader(args, "test").done();
  return Predicate(v);
}

// Adapts a test that takes one other value.
template <bool (*Predicate)(const Value&, const Value&)>
bool against(Interpreter&, const Value& v, Args& args) {
  ArgReader reader(args, "test");
  const Value other = reader.require("other");
  reader.done();
  spend_for(other);
  return Predicate(v, other);
}

bool is_defined(const Value& v) {
  return !is_undefined(v);
}
bool is_mapping(const Value& v) {
  return v.as<Dict>() != nullptr;
}
bool is_true(const Value& v) {
  return is_bool(v) && truthy(v);
}
bool is_false(const Value& v) {
  return is_bool(v) && !truthy(v);
}
bool is_callable(const Value& v) {
  return v.as<Function>() != nullptr;
}
bool is_iterable(const Value& v) {
  return is_string(v) || v.as<Sequence>() != nullptr || v.as<Dict>() != nullptr ||
         is_undefined(v) || v.as<Loop>() != nullptr;
}
bool is_sequence(const Value& v) {
  return is_iterable(v) && v.as<Loop>() == nullptr;
}
bool is_lower(const Value& v) {
  const String text = str(v);
  return text == to_lower(text) && text != to_upper(text);
}
bool is_upper(const Value& v) {
  const String text = str(v);
  return text == to_upper(text) && text != to_lower(text);
}

std::int64_t modulo(const Value& v, const Value& by) {
  const std::int64_t d = integer_of(by);
  if (d == 0) throw Error("division by zero");
  return d == -1 ? 0 : integer_of(v) % d;
}
bool is_odd(const Value& v) {
  return modulo(v, Value(std::int64_t{2})) != 0;
}
bool is_even(const Value& v) {
  return modulo(v, Value(std::int64_t{2})) == 0;
}
bool is_divisible(const Value& v, const Value& by) {
  return modulo(v, by) == 0;
}

bool ne(const Value& a, const Value& b) {
  return !equals(a, b);
}
bool gt(const Value& a, const Value& b) {
  return less(b, a);
}
bool le(const Value& a, const Value& b) {
  return less(a, b) || equals(a, b);
}
bool ge(const Value& a, const Value& b) {
  return less(b, a) || equals(a, b);
}
bool in(const Value& a, const Value& b) {
  return contains(b, a);
}
// Identity, as far as it is meaningful for values: True is not 1.
bool same_as(const Value& a, const Value& b) {
  return std::string_view(type_name(a)) == type_name(b) && equals(a, b);
}

bool is_escaped(const Value&) {
  return false;  // there is no markup type here
}
bool is_filter(const Value& v) {
  return is_string(v) && find_filter(*v.as<String>()) != nullptr;
}
bool is_test(const Value& v) {
  return is_string(v) && find_test(*v.as<String>()) != nullptr;
}

}  // namespace

TestFunction find_test(std::string_view name) {
  static const std::unordered_map<std::string_view, TestFunction> kTests = {
      {"defined", plain<is_defined>},
      {"undefined", plain<is_undefined>},
      {"none", plain<is_none>},
      {"string", plain<is_string>},
      {"mapping", plain<is_mapping>},
      {"number", plain<is_number>},
      {"integer", plain<is_int>},
      {"float", plain<is_float>},
      {"boolean", plain<is_bool>},
      {"true", plain<is_true>},
      {"false", plain<is_false>},
      {"callable", plain<is_callable>},
      {"iterable", plain<is_iterable>},
      {"sequence", plain<is_sequence>},
      {"lower", plain<is_lower>},
      {"upper", plain<is_upper>},
      {"odd", plain<is_odd>},
      {"even", plain<is_even>},
      {"filter", plain<is_filter>},
      {"test", plain<is_test>},
      {"escaped", plain<is_escaped>},
      {"divisibleby", against<is_divisible>},
      {"eq", against<equals>},
      {"equalto", against<equals>},
      {"==", against<equals>},
      {"ne", against<ne>},
      {"!=", against<ne>},
      {"lt", against<less>},
      {"lessthan", against<less>},
      {"<", against<less>},
      {"gt", against<gt>},
      {"greaterthan", against<gt>},
      {">", against<gt>},
      {"le", against<le>},
      {"<=", against<le>},
      {"ge", against<ge>},
      {">=", against<ge>},
      {"in", against<in>},
      {"sameas", against<same_as>},
  };
  const auto it = kTests.find(name);
  return it == kTests.end() ? nullptr : it->second;
}

}  // namespace tandem::jinja
