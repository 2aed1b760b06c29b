// Evaluation of expressions.
#include <fmt/format.h>

#include <cmath>

#include "engine/tokenizer/jinja/render/access.h"
#include "engine/tokenizer/jinja/render/builtins.h"
#include "engine/tokenizer/jinja/render/interpreter.h"
#include "engine/tokenizer/jinja/values/print.h"

namespace tandem::jinja {
namespace {

using Kind = Expr::Kind;

[[noreturn]] void fail_operands(std::string_view op, const Value& a, const Value& b) {
  for (const Value* v : {&a, &b})
    if (is_undefined(*v)) throw Error(fmt::format("'{}' is undefined", v->as<Undefined>()->name));
  throw Error(fmt::format("{} cannot take {} and {}", op, type_name(a), type_name(b)));
}

[[noreturn]] void fail_overflow() {
  throw Error("an integer is too large");
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0) throw Error("division by zero");
  if (b == -1) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) fail_overflow();
    return result;
  }
  const std::int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  if (b == 0) throw Error("division by zero");
  if (b == -1) return 0;
  const std::int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

Value power(const Value& a, const Value& b) {
  if (is_float(a) || is_float(b) || integer_of(b) < 0) {
    const double result = std::pow(double_of(a), double_of(b));
    if (!std::isfinite(result)) throw Error("** has no finite result");
    return Value(result);
  }
  std::int64_t result = 1;
  const std::int64_t base = integer_of(a);
  std::int64_t exponent = integer_of(b);
  if (base == 0 || base == 1) return Value(exponent == 0 ? std::int64_t{1} : base);
  if (base == -1) return Value(exponent % 2 == 0 ? std::int64_t{1} : std::int64_t{-1});
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow();
  return Value(result);
}

Value arithmetic(std::string_view op, const Value& a, const Value& b) {
  if (!is_number(a) || !is_number(b)) fail_operands(op, a, b);
  if (op == "**") return power(a, b);
  if (op == "/") {
    if (double_of(b) == 0) throw Error("division by zero");
    return Value(double_of(a) / double_of(b));
  }
  if (is_float(a) || is_float(b)) {
    const double x = double_of(a);
    const double y = double_of(b);
    if (op == "-") return Value(x - y);
    if (y == 0) throw Error("division by zero");
    if (op == "//") return Value(std::floor(x / y));
    const double r = std::fmod(x, y);
    return Value(r != 0 && (r < 0) != (y < 0) ? r + y : r);
  }
  if (op == "//") return Value(floor_div(integer_of(a), integer_of(b)));
  if (op == "%") return Value(floor_mod(integer_of(a), integer_of(b)));
  std::int64_t result = 0;
  if (__builtin_sub_overflow(integer_of(a), integer_of(b), &result)) fail_overflow();
  return Value(result);
}

}  // namespace

Value Interpreter::eval(const Expr& e) {
  const DepthGuard guard(*this);
  spend_steps(1);
  try {
    return eval_sized(e);
  } catch (Error& error) {
    if (error.line == 0) error.line = e.line;
    throw;
  }
}

Value Interpreter::eval_sized(const Expr& e) {
  auto child = [&](std::size_t i) { return eval(*e.children[i]); };
  auto optional = [&](std::size_t i) { return e.children[i] == nullptr ? Value() : child(i); };
  switch (e.kind) {
    case Kind::constant:
      return e.value;
    case Kind::name:
      return eval_name(e.text);
    case Kind::list:
    case Kind::tuple: {
      Values items;
      for (const ExprPtr& item : e.children) items.push_back(eval(*item));
      return e.kind == Kind::list ? make_list(std::move(items)) : make_tuple(std::move(items));
    }
    case Kind::dict: {
      auto dict = make_metered<Dict>();
      for (std::size_t i = 0; i + 1 < e.children.size(); i += 2) {
        const Value key = child(i);
        dict->set(key, child(i + 1));
      }
      return make_dict(std::move(dict));
    }
    case Kind::attribute:
      return get_attribute(child(0), e.text);
    case Kind::item: {
      const Value object = child(0);
      if (is_string(object)) spend_for(object);
      return get_item(object, child(1));
    }
    case Kind::slice: {
      const Value object = child(0);
      spend_for(object);
      const Value start = optional(1);
      const Value stop = optional(2);
      return get_slice(object, start, stop, optional(3));
    }
    case Kind::call: {
      const Value function = child(0);
      Args args = eval_arguments(e);
      return call(function, args);
    }
    case Kind::filter:
      return eval_filter(e, nullptr);
    case Kind::test: {
      const Value input = child(0);
      Args args = eval_arguments(e);
      spend_for(input);
      return Value(e.test(*this, input, args));
    }
    case Kind::negative: {
      const Value v = child(0);
      if (is_float(v)) return Value(-double_of(v));
      if (!is_number(v)) fail_operands("-", v, v);
      return Value(floor_div(integer_of(v), -1));
    }
    case Kind::positive: {
      const Value v = child(0);
      if (!is_number(v)) fail_operands("+", v, v);
      return is_bool(v) ? Value(integer_of(v)) : v;
    }
    case Kind::logical_not:
      return Value(!truthy(child(0)));
    case Kind::logical_and: {
      Value left = child(0);
      return truthy(left) ? child(1) : left;
    }
    case Kind::logical_or: {
      Value left = child(0);
      return truthy(left) ? left : child(1);
    }
    case Kind::binary:
      return eval_binary(e);
    case Kind::concat: {
      String text;
      for (const ExprPtr& part : e.children) {
        const String more = str(eval(*part));
        text += more;
      }
      return Value(std::move(text));
    }
    case Kind::compare:
      return eval_compare(e);
    case Kind::conditional:
      if (truthy(child(1))) return child(0);
      return e.children[2] == nullptr ? make_undefined("the else of an inline if") : child(2);
  }
  return {};
}

Value Interpreter::eval_name(std::string_view name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    spend(kItemUnits + name.size());
    if (const auto it = scope->names.find(name); it != scope->names.end()) return it->second;
  }
  const auto it = globals_.find(name);
  return it == globals_.end() ? make_undefined(name) : it->second;
}

Args Interpreter::eval_arguments(const Expr& e) {
  Args args;
  for (const ExprPtr& argument : e.positional) args.positional.push_back(eval(*argument));
  for (const auto& [name, argument] : e.named) args.named.emplace_back(name, eval(*argument));
  return args;
}

Value Interpreter::eval_filter(const Expr& e, const Value* block_input) {
  Value input;
  if (e.children[0] == nullptr) {
    input = *block_input;
  } else if (block_input != nullptr && e.children[0]->kind == Kind::filter) {
    input = eval_filter(*e.children[0], block_input);  // the filters of a {% filter %} or set block
  } else {
    input = eval(*e.children[0]);
  }
  Args args = eval_arguments(e);
  spend_for(input);
  return e.filter(*this, input, args);
}

Value Interpreter::eval_compare(const Expr& e) {
  Value left = eval(*e.children[0]);
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    Value right = eval(*e.children[i + 1]);
    spend_for(left);
    spend_for(right);
    std::string_view op = e.ops[i];
    bool holds = false;
    if (op == "==" || op == "!=") {
      holds = equals(left, right) == (op == "==");
    } else if (op == "in" || op == "not in") {
      holds = contains(right, left) == (op == "in");
    } else if (is_undefined(left) || is_undefined(right)) {
      fail_operands(op, left, right);
    } else if (op == "<") {
      holds = less(left, right);
    } else if (op == ">") {
      holds = less(right, left);
    } else if (op == "<=") {
      holds = less(left, right) || equals(left, right);
    } else {
      holds = less(right, left) || equals(left, right);
    }
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::eval_binary(const Expr& e) {
  const Value a = eval(*e.children[0]);
  const Value b = eval(*e.children[1]);
  if (e.text == "+") return add(a, b);
  if (e.text == "*") return multiply(a, b);
  if (e.text == "%" && is_string(a)) {
    String text = format_percent(*a.as<String>(), b);
    return Value(std::move(text));
  }
  return arithmetic(e.text, a, b);
}

Value Interpreter::add(const Value& a, const Value& b) {
  if (is_string(a) && is_string(b)) {
    return Value(*a.as<String>() + *b.as<String>());
  }
  const Sequence* x = a.as<Sequence>();
  const Sequence* y = b.as<Sequence>();
  if (x != nullptr && y != nullptr && x->is_tuple == y->is_tuple) {
    spend_steps(x->items.size() + y->items.size());
    Values items = x->items;
    items.insert(items.end(), y->items.begin(), y->items.end());
    return x->is_tuple ? make_tuple(std::move(items)) : make_list(std::move(items));
  }
  if (!is_number(a) || !is_number(b)) fail_operands("+", a, b);
  if (is_float(a) || is_float(b)) return Value(double_of(a) + double_of(b));
  std::int64_t result = 0;
  if (__builtin_add_overflow(integer_of(a), integer_of(b), &result)) fail_overflow();
  return Value(result);
}

Value Interpreter::multiply(const Value& a, const Value& b) {
  if (!is_number(a) && is_number(b)) {
    const bool repeats = is_string(a) || a.as<Sequence>() != nullptr;
    if (!repeats || is_float(b)) fail_operands("*", a, b);
    const std::int64_t times = integer_of(b);
    if (times <= 0) return is_string(a) ? Value("") : make_list({});
    const auto count = static_cast<std::size_t>(times);
    std::size_t size = is_string(a) ? a.as<String>()->size() : a.as<Sequence>()->items.size();
    if (__builtin_mul_overflow(size, count, &size) || size > kMaxTextBytes)
      throw Error("* makes a value that is too long");
    if (const String* s = a.as<String>()) {
      String text;
      for (std::size_t i = 0; i < count && !s->empty(); ++i) text += *s;
      return Value(std::move(text));
    }
    spend_steps(size);
    Values items;
    const Sequence& sequence = *a.as<Sequence>();
    for (std::size_t i = 0; i < count && !sequence.items.empty(); ++i)
      items.insert(items.end(), sequence.items.begin(), sequence.items.end());
    return sequence.is_tuple ? make_tuple(std::move(items)) : make_list(std::move(items));
  }
  if (is_number(a) && (is_string(b) || b.as<Sequence>() != nullptr)) return multiply(b, a);
  if (!is_number(a) || !is_number(b)) fail_operands("*", a, b);
  if (is_float(a) || is_float(b)) return Value(double_of(a) * double_of(b));
  std::int64_t result = 0;
  if (__builtin_mul_overflow(integer_of(a), integer_of(b), &result)) fail_overflow();
  return Value(result);
}

}  // namespace tandem::jinja
