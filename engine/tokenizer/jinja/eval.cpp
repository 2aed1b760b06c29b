// Expressions.
#include <fmt/format.h>

#include <cmath>

#include "engine/tokenizer/jinja/interpreter.h"

namespace tandem::jinja {
namespace {

using Kind = Expr::Kind;

[[noreturn]] void fail_operands(std::string_view op, const Value& a, const Value& b) {
  for (const Value* v : {&a, &b})
    if (v->is_undefined()) throw Error(fmt::format("'{}' is undefined", v->undefined_info()->name));
  throw Error(fmt::format("{} cannot take {} and {}", op, a.type_name(), b.type_name()));
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
  if (a.is_float() || b.is_float() || b.as_int() < 0) {
    const double result = std::pow(a.as_double(), b.as_double());
    if (!std::isfinite(result)) throw Error("** has no finite result");
    return Value(result);
  }
  std::int64_t result = 1;
  const std::int64_t base = a.as_int();
  std::int64_t exponent = b.as_int();
  if (base == 0 || base == 1) return Value(exponent == 0 ? std::int64_t{1} : base);
  if (base == -1) return Value(exponent % 2 == 0 ? std::int64_t{1} : std::int64_t{-1});
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow();
  return Value(result);
}

Value arithmetic(const std::string& op, const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) fail_operands(op, a, b);
  if (op == "**") return power(a, b);
  if (op == "/") {
    if (b.as_double() == 0) throw Error("division by zero");
    return Value(a.as_double() / b.as_double());
  }
  if (a.is_float() || b.is_float()) {
    const double x = a.as_double();
    const double y = b.as_double();
    if (op == "-") return Value(x - y);
    if (y == 0) throw Error("division by zero");
    if (op == "//") return Value(std::floor(x / y));
    const double r = std::fmod(x, y);
    return Value(r != 0 && (r < 0) != (y < 0) ? r + y : r);
  }
  if (op == "//") return Value(floor_div(a.as_int(), b.as_int()));
  if (op == "%") return Value(floor_mod(a.as_int(), b.as_int()));
  std::int64_t result = 0;
  if (__builtin_sub_overflow(a.as_int(), b.as_int(), &result)) fail_overflow();
  return Value(result);
}

}  // namespace

Value Interpreter::eval(const Expr& e) {
  const DepthGuard guard(*this);
  charge(1);
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
      return e.kind == Kind::list ? Value::list(std::move(items)) : Value::tuple(std::move(items));
    }
    case Kind::dict: {
      auto dict = std::make_shared<Dict>();
      for (std::size_t i = 0; i + 1 < e.children.size(); i += 2) {
        const Value key = child(i);
        dict->set(key, child(i + 1));
      }
      return Value::dict(std::move(dict));
    }
    case Kind::attribute:
      return get_attribute(child(0), e.text);
    case Kind::item: {
      const Value object = child(0);
      if (object.is_string()) charge_for(object);
      return get_item(object, child(1));
    }
    case Kind::slice: {
      const Value object = child(0);
      charge_for(object);
      const Value start = optional(1);
      const Value stop = optional(2);
      return get_slice(object, start, stop, optional(3));
    }
    case Kind::call: {
      const Value function = child(0);
      if (const Undefined* missing = function.undefined_info())
        throw Error(fmt::format("'{}' is undefined", missing->name));
      Args args = eval_arguments(e);
      return call(function, args);
    }
    case Kind::filter:
      return eval_filter(e, nullptr);
    case Kind::test: {
      const Value input = child(0);
      Args args = eval_arguments(e);
      charge_for(input);
      return Value(e.test(*this, input, args));
    }
    case Kind::negative: {
      const Value v = child(0);
      if (v.is_float()) return Value(-v.as_double());
      if (!v.is_number()) fail_operands("-", v, v);
      return Value(floor_div(v.as_int(), -1));
    }
    case Kind::positive: {
      const Value v = child(0);
      if (!v.is_number()) fail_operands("+", v, v);
      return v.is_bool() ? Value(v.as_int()) : v;
    }
    case Kind::logical_not:
      return Value(!child(0).truthy());
    case Kind::logical_and: {
      Value left = child(0);
      return left.truthy() ? child(1) : left;
    }
    case Kind::logical_or: {
      Value left = child(0);
      return left.truthy() ? left : child(1);
    }
    case Kind::binary:
      return eval_binary(e);
    case Kind::concat: {
      std::string text;
      for (const ExprPtr& part : e.children) {
        const std::string more = eval(*part).str();
        charge_text(text.size() + more.size());
        text += more;
      }
      return Value(std::move(text));
    }
    case Kind::compare:
      return eval_compare(e);
    case Kind::conditional:
      if (child(1).truthy()) return child(0);
      return e.children[2] == nullptr ? Value::undefined("the else of an inline if") : child(2);
  }
  return {};
}

Value Interpreter::eval_name(const std::string& name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get())
    if (const auto it = scope->names.find(name); it != scope->names.end()) return it->second;
  const auto it = globals_.find(name);
  return it == globals_.end() ? Value::undefined(name) : it->second;
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
    input = eval_filter(*e.children[0], block_input);  // the chain of a block's filters
  } else {
    input = eval(*e.children[0]);
  }
  Args args = eval_arguments(e);
  charge_for(input);
  return e.filter(*this, input, args);
}

Value Interpreter::eval_compare(const Expr& e) {
  Value left = eval(*e.children[0]);
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    Value right = eval(*e.children[i + 1]);
    charge_for(left);
    charge_for(right);
    const std::string& op = e.ops[i];
    bool holds = false;
    if (op == "==" || op == "!=") {
      holds = left.equals(right) == (op == "==");
    } else if (op == "in" || op == "not in") {
      holds = right.contains(left) == (op == "in");
    } else if (left.is_undefined() || right.is_undefined()) {
      fail_operands(op, left, right);
    } else if (op == "<") {
      holds = left.less(right);
    } else if (op == ">") {
      holds = right.less(left);
    } else if (op == "<=") {
      holds = left.less(right) || left.equals(right);
    } else {
      holds = right.less(left) || left.equals(right);
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
  if (e.text == "%" && a.is_string()) {
    std::string text = format_percent(*a.string(), b);
    charge_text(text.size());
    return Value(std::move(text));
  }
  return arithmetic(e.text, a, b);
}

Value Interpreter::add(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    charge_text(a.string()->size() + b.string()->size());
    return Value(*a.string() + *b.string());
  }
  const Sequence* x = a.sequence();
  const Sequence* y = b.sequence();
  if (x != nullptr && y != nullptr && x->is_tuple == y->is_tuple) {
    charge(x->items.size() + y->items.size());
    Values items = x->items;
    items.insert(items.end(), y->items.begin(), y->items.end());
    return x->is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
  }
  if (!a.is_number() || !b.is_number()) fail_operands("+", a, b);
  if (a.is_float() || b.is_float()) return Value(a.as_double() + b.as_double());
  std::int64_t result = 0;
  if (__builtin_add_overflow(a.as_int(), b.as_int(), &result)) fail_overflow();
  return Value(result);
}

Value Interpreter::multiply(const Value& a, const Value& b) {
  if (!a.is_number() && b.is_number()) {
    const bool repeats = a.is_string() || a.sequence() != nullptr;
    if (!repeats || b.is_float()) fail_operands("*", a, b);
    const std::int64_t times = b.as_int();
    if (times <= 0) return a.is_string() ? Value("") : Value::list({});
    const auto count = static_cast<std::size_t>(times);
    std::size_t size = a.is_string() ? a.string()->size() : a.sequence()->items.size();
    if (__builtin_mul_overflow(size, count, &size) || size > limits_.text_bytes)
      throw Error("* makes a value that is too long");
    if (const std::string* s = a.string()) {
      charge_text(size);
      std::string text;
      for (std::size_t i = 0; i < count && !s->empty(); ++i) text += *s;
      return Value(std::move(text));
    }
    charge(size);
    Values items;
    const Sequence& sequence = *a.sequence();
    for (std::size_t i = 0; i < count && !sequence.items.empty(); ++i)
      items.insert(items.end(), sequence.items.begin(), sequence.items.end());
    return sequence.is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
  }
  if (a.is_number() && (b.is_string() || b.sequence() != nullptr)) return multiply(b, a);
  if (!a.is_number() || !b.is_number()) fail_operands("*", a, b);
  if (a.is_float() || b.is_float()) return Value(a.as_double() * b.as_double());
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a.as_int(), b.as_int(), &result)) fail_overflow();
  return Value(result);
}

}  // namespace tandem::jinja
