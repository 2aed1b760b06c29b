#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/parse_number.h"
#include "engine/tokenizer/jinja/syntax/parser.h"
#include "engine/tokenizer/jinja/values/error.h"

namespace tandem::jinja {

using Kind = Expr::Kind;
using Type = Token::Type;

const Token& Parser::take() {
  const Token& token = current();
  if (token.type != Type::end) ++pos_;
  return token;
}

bool Parser::is_op(std::string_view op) const {
  return current().type == Type::op && current().text == op;
}
bool Parser::is_name(std::string_view name) const {
  return current().type == Type::name && current().text == name;
}
bool Parser::skip_op(std::string_view op) {
  const bool found = is_op(op);
  if (found) take();
  return found;
}
bool Parser::skip_name(std::string_view name) {
  const bool found = is_name(name);
  if (found) take();
  return found;
}
void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) fail_unexpected(fmt::format("'{}'", op));
}
std::string Parser::expect_name() {
  if (current().type != Type::name) fail_unexpected("a name");
  return take().text;
}
void Parser::fail(const std::string& message) const {
  throw Error(message, current().line);
}
void Parser::fail_unexpected(const std::string& wanted) const {
  fail(current().type == Type::end
           ? fmt::format("expected {}, but the template ends", wanted)
           : fmt::format("expected {}, found '{}'", wanted, current().text));
}

ExprPtr Parser::node(Kind kind) const {
  auto result = std::make_unique<Expr>();
  result->kind = kind;
  result->line = current().line;
  return result;
}

void Parser::adopt(Expr& parent, ExprPtr child) const {
  if (child != nullptr) {
    parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > kMaxTreeDepth) fail("an expression is nested too deeply or too long");
  }
  parent.children.push_back(std::move(child));
}

ExprPtr Parser::expression(bool with_conditional) {
  const Nesting guard(*this);
  ExprPtr left = parse_or();
  while (with_conditional && is_name("if")) {
    ExprPtr result = node(Kind::conditional);
    take();
    adopt(*result, std::move(left));
    adopt(*result, parse_or());
    adopt(*result, skip_name("else") ? expression() : nullptr);
    left = std::move(result);
  }
  return left;
}

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  while (is_name("or")) {
    ExprPtr result = node(Kind::logical_or);
    take();
    adopt(*result, std::move(left));
    adopt(*result, parse_and());
    left = std::move(result);
  }
  return left;
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  while (is_name("and")) {
    ExprPtr result = node(Kind::logical_and);
    take();
    adopt(*result, std::move(left));
    adopt(*result, parse_not());
    left = std::move(result);
  }
  return left;
}

ExprPtr Parser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Nesting guard(*this);
  ExprPtr result = node(Kind::logical_not);
  take();
  adopt(*result, parse_not());
  return result;
}

ExprPtr Parser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr result = node(Kind::compare);
  while (true) {
    std::string op;
    if (current().type == Type::op) {
      for (const std::string_view known : {"==", "!=", "<", "<=", ">", ">="})
        if (current().text == known) op = known;
    } else if (is_name("in")) {
      op = "in";
    } else if (is_name("not") && ahead().type == Type::name && ahead().text == "in") {
      take();
      op = "not in";
    }
    if (op.empty()) break;
    take();
    if (first != nullptr) adopt(*result, std::move(first));
    result->ops.push_back(op);
    adopt(*result, parse_sum());
  }
  return result->ops.empty() ? std::move(first) : std::move(result);
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (is_op("+") || is_op("-")) {
    ExprPtr result = node(Kind::binary);
    result->text = take().text;
    adopt(*result, std::move(left));
    adopt(*result, parse_concat());
    left = std::move(result);
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  ExprPtr first = parse_product();
  if (!is_op("~")) return first;
  ExprPtr result = node(Kind::concat);
  adopt(*result, std::move(first));
  while (skip_op("~")) adopt(*result, parse_product());
  return result;
}

ExprPtr Parser::parse_product() {
  ExprPtr left = parse_power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    ExprPtr result = node(Kind::binary);
    result->text = take().text;
    adopt(*result, std::move(left));
    adopt(*result, parse_power());
    left = std::move(result);
  }
  return left;
}

ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary(true);
  while (is_op("**")) {
    ExprPtr result = node(Kind::binary);
    result->text = take().text;
    adopt(*result, std::move(left));
    adopt(*result, parse_unary(true));
    left = std::move(result);
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  const Nesting guard(*this);
  ExprPtr result;
  if (is_op("-") || is_op("+")) {
    result = node(is_op("-") ? Kind::negative : Kind::positive);
    take();
    adopt(*result, parse_unary(false));
  } else {
    result = parse_primary();
  }
  result = parse_postfix(std::move(result));
  return with_filter ? parse_filters(std::move(result)) : std::move(result);
}

ExprPtr Parser::parse_primary() {
  ExprPtr result = node(Kind::constant);
  if (current().type == Type::name) {
    const std::string& name = take().text;
    if (name == "true" || name == "True") {
      result->value = Value(true);
    } else if (name == "false" || name == "False") {
      result->value = Value(false);
    } else if (name != "none" && name != "None") {
      result->kind = Kind::name;
      result->text = name;
    }
  } else if (current().type == Type::string) {
    std::string text;
    while (current().type == Type::string) text += take().text;
    result->value = Value(std::string_view(text));
  } else if (current().type == Type::integer) {
    const std::string& digits = take().text;
    const auto number = parse_number<std::int64_t>(digits);
    if (!number) fail(fmt::format("{} is too large", digits));
    result->value = Value(*number);
  } else if (current().type == Type::floating) {
    const std::string& digits = take().text;
    double number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    result->value = Value(number);
  } else if (skip_op("(")) {
    result = parse_tuple(true, true);
    expect_op(")");
  } else if (skip_op("[")) {
    result->kind = Kind::list;
    while (!is_op("]")) {
      if (!result->children.empty()) expect_op(",");
      if (is_op("]")) break;
      adopt(*result, expression());
    }
    expect_op("]");
  } else if (skip_op("{")) {
    result->kind = Kind::dict;
    while (!is_op("}")) {
      if (!result->children.empty()) expect_op(",");
      if (is_op("}")) break;
      adopt(*result, expression());
      expect_op(":");
      adopt(*result, expression());
    }
    expect_op("}");
  } else {
    fail_unexpected("an expression");
  }
  return result;
}

bool Parser::tuple_ends() const {
  return current().type == Type::variable_end || current().type == Type::block_end || is_op(")") ||
         is_name("recursive");
}

ExprPtr Parser::parse_tuple(bool with_conditional, bool parenthesized) {
  ExprPtr result = node(Kind::tuple);
  bool is_tuple = false;
  while (true) {
    if (!result->children.empty()) expect_op(",");
    if (tuple_ends()) break;
    adopt(*result, expression(with_conditional));
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return result;
  if (!result->children.empty()) return std::move(result->children.front());
  if (!parenthesized) fail_unexpected("an expression");
  return result;
}

ExprPtr Parser::parse_postfix(ExprPtr target) {
  while (true) {
    if (is_op(".") || is_op("[")) {
      target = parse_subscript(std::move(target));
    } else if (is_op("(")) {
      ExprPtr call = node(Kind::call);
      adopt(*call, std::move(target));
      parse_arguments(*call);
      target = std::move(call);
    } else {
      return target;
    }
  }
}

ExprPtr Parser::parse_filters(ExprPtr input) {
  while (true) {
    if (skip_op("|")) {
      input = parse_one_filter(std::move(input));
    } else if (is_name("is")) {
      input = parse_test(std::move(input));
    } else if (is_op("(")) {
      ExprPtr call = node(Kind::call);
      adopt(*call, std::move(input));
      parse_arguments(*call);
      input = std::move(call);
    } else {
      return input;
    }
  }
}

ExprPtr Parser::parse_one_filter(ExprPtr input) {
  ExprPtr result = node(Kind::filter);
  result->text = expect_name();
  result->filter = builtins_.filter(result->text);
  if (result->filter == nullptr) fail(fmt::format("filter \"{}\" is not supported", result->text));
  adopt(*result, std::move(input));
  if (is_op("(")) parse_arguments(*result);
  return result;
}

ExprPtr Parser::parse_test(ExprPtr input) {
  ExprPtr result = node(Kind::test);
  take();  // is
  const bool negated = skip_name("not");
  result->text = expect_name();
  result->test = builtins_.test(result->text);
  if (result->test == nullptr) fail(fmt::format("test \"{}\" is not supported", result->text));
  adopt(*result, std::move(input));
  const Type type = current().type;
  if (is_op("(")) {
    parse_arguments(*result);
  } else if ((type == Type::name && !is_name("else") && !is_name("or") && !is_name("and")) ||
             type == Type::string || type == Type::integer || type == Type::floating ||
             is_op("[") || is_op("{")) {
    if (is_name("is")) fail("tests cannot be chained with is");
    ExprPtr argument = parse_postfix(parse_primary());
    result->depth = std::max(result->depth, argument->depth + 1);
    result->positional.push_back(std::move(argument));
  }
  if (!negated) return result;
  ExprPtr inverse = node(Kind::logical_not);
  adopt(*inverse, std::move(result));
  return inverse;
}

ExprPtr Parser::parse_subscript(ExprPtr target) {
  if (skip_op(".")) {
    ExprPtr result = node(Kind::attribute);
    if (current().type == Type::integer) {
      result->kind = Kind::item;
      adopt(*result, std::move(target));
      adopt(*result, parse_primary());
      return result;
    }
    result->text = expect_name();
    adopt(*result, std::move(target));
    return result;
  }
  ExprPtr result = node(Kind::item);
  take();  // [
  adopt(*result, std::move(target));
  if (!is_op(":")) adopt(*result, expression());
  if (is_op(":")) {
    result->kind = Kind::slice;
    if (result->children.size() == 1) adopt(*result, nullptr);
    for (int part = 0; part < 2; ++part) {  // stop, step
      const bool given = skip_op(":") && !is_op(":") && !is_op("]");
      adopt(*result, given ? expression() : nullptr);
    }
  }
  expect_op("]");
  return result;
}

void Parser::parse_arguments(Expr& call) {
  expect_op("(");
  bool first = true;
  auto add = [&](ExprPtr argument) {
    call.depth = std::max(call.depth, argument->depth + 1);
    if (call.depth > kMaxTreeDepth) fail("an expression is nested too deeply or too long");
    return argument;
  };
  while (!is_op(")")) {
    if (!first) expect_op(",");
    if (is_op(")")) break;
    first = false;
    if (is_op("*") || is_op("**")) fail("arguments unpacked with * are not supported");
    if (current().type == Type::name && ahead().type == Type::op && ahead().text == "=") {
      std::string name = take().text;
      take();  // =
      call.named.emplace_back(std::move(name), add(expression()));
    } else {
      if (!call.named.empty()) fail("a positional argument after a named one");
      call.positional.push_back(add(expression()));
    }
  }
  expect_op(")");
}

}  // namespace tandem::jinja
