// The tests of "is".
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "engine/tokenizer/jinja/ast.h"
#include "engine/tokenizer/jinja/interpreter.h"
#include "engine/tokenizer/jinja/text.h"

namespace tandem::jinja {
namespace {

// A test without arguments, as a plain predicate.
template <bool (*Predicate)(const Value&)>
bool plain(Interpreter&, const Value& v, Args& args) {
  ArgReader(args, "test").done();
  return Predicate(v);
}

// A test against one other value.
template <bool (*Predicate)(const Value&, const Value&)>
bool against(Interpreter& in, const Value& v, Args& args) {
  ArgReader reader(args, "test");
  const Value other = reader.require("other");
  reader.done();
  in.charge_for(other);
  return Predicate(v, other);
}

bool is_defined(const Value& v) {
  return !v.is_undefined();
}
bool is_undefined(const Value& v) {
  return v.is_undefined();
}
bool is_none(const Value& v) {
  return v.is_none();
}
bool is_string(const Value& v) {
  return v.is_string();
}
bool is_mapping(const Value& v) {
  return v.dict() != nullptr;
}
bool is_number(const Value& v) {
  return v.is_number();
}
bool is_integer(const Value& v) {
  return v.is_int();
}
bool is_float(const Value& v) {
  return v.is_float();
}
bool is_boolean(const Value& v) {
  return v.is_bool();
}
bool is_true(const Value& v) {
  return v.is_bool() && v.truthy();
}
bool is_false(const Value& v) {
  return v.is_bool() && !v.truthy();
}
bool is_callable(const Value& v) {
  return v.function() != nullptr;
}
bool is_iterable(const Value& v) {
  return v.is_string() || v.sequence() != nullptr || v.dict() != nullptr || v.is_undefined() ||
         v.loop() != nullptr;
}
bool is_sequence(const Value& v) {
  return is_iterable(v) && v.loop() == nullptr;
}
bool is_lower(const Value& v) {
  return v.str() == to_lower(v.str()) && v.str() != to_upper(v.str());
}
bool is_upper(const Value& v) {
  return v.str() == to_upper(v.str()) && v.str() != to_lower(v.str());
}

std::int64_t modulo(const Value& v, const Value& by) {
  const std::int64_t d = by.as_int();
  if (d == 0) throw Error("division by zero");
  return d == -1 ? 0 : v.as_int() % d;
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

bool eq(const Value& a, const Value& b) {
  return a.equals(b);
}
bool ne(const Value& a, const Value& b) {
  return !a.equals(b);
}
bool lt(const Value& a, const Value& b) {
  return a.less(b);
}
bool gt(const Value& a, const Value& b) {
  return b.less(a);
}
bool le(const Value& a, const Value& b) {
  return a.less(b) || a.equals(b);
}
bool ge(const Value& a, const Value& b) {
  return b.less(a) || a.equals(b);
}
bool in(const Value& a, const Value& b) {
  return b.contains(a);
}
// Identity, as far as it means something for values: True is not 1.
bool same_as(const Value& a, const Value& b) {
  return std::string_view(a.type_name()) == b.type_name() && a.equals(b);
}

bool is_filter(const Value& v) {
  return v.is_string() && find_filter(*v.string()) != nullptr;
}
bool is_test(const Value& v) {
  return v.is_string() && find_test(*v.string()) != nullptr;
}

}  // namespace

TestFunction find_test(const std::string& name) {
  static const std::unordered_map<std::string_view, TestFunction> kTests = {
      {"defined", plain<is_defined>},
      {"undefined", plain<is_undefined>},
      {"none", plain<is_none>},
      {"string", plain<is_string>},
      {"mapping", plain<is_mapping>},
      {"number", plain<is_number>},
      {"integer", plain<is_integer>},
      {"float", plain<is_float>},
      {"boolean", plain<is_boolean>},
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
      {"divisibleby", against<is_divisible>},
      {"eq", against<eq>},
      {"equalto", against<eq>},
      {"ne", against<ne>},
      {"lt", against<lt>},
      {"lessthan", against<lt>},
      {"gt", against<gt>},
      {"greaterthan", against<gt>},
      {"le", against<le>},
      {"ge", against<ge>},
      {"in", against<in>},
      {"sameas", against<same_as>},
  };
  const auto it = kTests.find(name);
  return it == kTests.end() ? nullptr : it->second;
}

}  // namespace tandem::jinja
