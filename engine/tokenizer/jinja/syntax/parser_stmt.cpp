#include <fmt/format.h>

#include "engine/tokenizer/jinja/syntax/parser.h"
#include "engine/tokenizer/jinja/values/error.h"

namespace tandem::jinja {

using Type = Token::Type;

Body parse(std::string_view source, const Builtins& builtins) {
  return Parser(tokenize(source), builtins).parse_template();
}

Body Parser::parse_template() {
  return parse_body({});
}

// Parses up to a tag in `ends`, whose {% and name the caller then consumes (end_tag, parse_if...);
// if `ends` is empty, to the end of the template.
Body Parser::parse_body(std::initializer_list<std::string_view> ends) {
  const Nesting guard(*this);
  Body body;
  while (current().type != Type::end) {
    const int line = current().line;
    if (current().type == Type::text) {
      Stmt text(Stmt::Kind::text);
      text.text = take().text;
      text.line = line;
      body.push_back(std::move(text));
    } else if (current().type == Type::variable_begin) {
      take();
      Stmt output(Stmt::Kind::output);
      output.line = line;
      output.expr = parse_tuple(true);
      if (current().type != Type::variable_end) fail_unexpected("'}}'");
      take();
      body.push_back(std::move(output));
    } else {
      if (current().type != Type::block_begin) fail_unexpected("text or a tag");
      for (const std::string_view end : ends)
        if (ahead().type == Type::name && ahead().text == end) return body;
      take();
      const std::string tag = expect_name();
      Stmt statement = parse_statement(tag);
      statement.line = line;
      body.push_back(std::move(statement));
    }
  }
  if (ends.size() > 0) fail(fmt::format("the template ends before {{% {} %}}", *(ends.end() - 1)));
  return body;
}

void Parser::end_block() {
  if (current().type != Type::block_end) fail_unexpected("'%}'");
  take();
}

void Parser::end_tag(std::string_view name) {
  take();  // {%
  if (!skip_name(name)) fail_unexpected(fmt::format("'{}'", name));
}

Stmt Parser::parse_statement(const std::string& tag) {
  if (tag == "if") return parse_if();
  if (tag == "for") return parse_for();
  if (tag == "set") return parse_set();
  if (tag == "macro") return parse_macro();
  if (tag == "with") return parse_with();
  if (tag == "call") return parse_call();
  if (tag == "block") return parse_block();
  if (tag == "break" || tag == "continue") {
    if (loops_ == 0) fail(fmt::format("{} outside a loop", tag));
    end_block();
    return Stmt(tag == "break" ? Stmt::Kind::break_ : Stmt::Kind::continue_);
  }
  if (tag == "generation") {  // marks text for training; no effect in a server
    Stmt result(Stmt::Kind::group);
    end_block();
    result.body = parse_body({"endgeneration"});
    end_tag("endgeneration");
    end_block();
    return result;
  }
  if (tag == "filter") {
    Stmt result(Stmt::Kind::filter_block);
    result.expr = parse_one_filter(nullptr);
    while (skip_op("|")) result.expr = parse_one_filter(std::move(result.expr));
    end_block();
    result.body = parse_body({"endfilter"});
    end_tag("endfilter");
    end_block();
    return result;
  }
  fail(fmt::format("tag \"{}\" is not supported", tag));
}

Stmt Parser::parse_if() {
  Stmt result(Stmt::Kind::if_);
  while (true) {
    ExprPtr condition = parse_tuple(false);
    end_block();
    Body body = parse_body({"elif", "else", "endif"});
    result.branches.emplace_back(std::move(condition), std::move(body));
    take();  // {%
    const std::string tag = expect_name();
    if (tag == "elif") continue;
    if (tag == "else") {
      end_block();
      result.branches.emplace_back(nullptr, parse_body({"endif"}));
      end_tag("endif");
    }
    end_block();
    return result;
  }
}

Stmt Parser::parse_for() {
  Stmt result(Stmt::Kind::for_);
  result.target = parse_target(false);
  if (!skip_name("in")) fail_unexpected("'in'");
  result.expr = parse_tuple(false);
  if (skip_name("if")) result.condition = expression();
  result.recursive = skip_name("recursive");
  end_block();
  ++loops_;
  result.body = parse_body({"else", "endfor"});
  --loops_;
  take();  // {%
  if (skip_name("else")) {
    end_block();
    result.other = parse_body({"endfor"});
    take();
  }
  if (!skip_name("endfor")) fail_unexpected("'endfor'");
  end_block();
  return result;
}

Stmt Parser::parse_set() {
  Stmt result(Stmt::Kind::set);
  result.target = parse_target(true);
  if (skip_op("=")) {
    result.expr = parse_tuple(true);
    end_block();
    return result;
  }
  result.kind = Stmt::Kind::set_block;
  while (skip_op("|")) result.expr = parse_one_filter(std::move(result.expr));
  end_block();
  result.body = parse_body({"endset"});
  end_tag("endset");
  end_block();
  return result;
}

void Parser::parse_parameters(Stmt& macro) {
  expect_op("(");
  while (!is_op(")")) {
    if (!macro.parameters.empty()) expect_op(",");
    std::string name = expect_name();
    ExprPtr fallback = skip_op("=") ? expression() : nullptr;
    if (fallback == nullptr && !macro.parameters.empty() &&
        macro.parameters.back().second != nullptr)
      fail("a parameter without a default after one with");
    macro.parameters.emplace_back(std::move(name), std::move(fallback));
  }
  expect_op(")");
}

// {% call(x) f(y) %}...{% endcall %}: prints the result of f, which receives the body as a macro.
Stmt Parser::parse_call() {
  Stmt result(Stmt::Kind::call_block);
  result.text = "caller";
  if (is_op("(")) parse_parameters(result);
  result.expr = expression();
  if (result.expr->kind != Expr::Kind::call) fail("{% call %} needs a call, as in f(x)");
  end_block();
  const int outer_loops = std::exchange(loops_, 0);
  result.body = parse_body({"endcall"});
  loops_ = outer_loops;
  end_tag("endcall");
  end_block();
  return result;
}

// Without template inheritance, a block is printed in its place.
Stmt Parser::parse_block() {
  Stmt result(Stmt::Kind::block);
  result.text = expect_name();
  if (skip_name("scoped")) result.kind = Stmt::Kind::with;
  if (is_name("required")) fail("a required block needs a template that extends this one");
  end_block();
  const int outer_loops = std::exchange(loops_, 0);
  result.body = parse_body({"endblock"});
  loops_ = outer_loops;
  end_tag("endblock");
  skip_name(result.text);
  end_block();
  return result;
}

Stmt Parser::parse_macro() {
  Stmt result(Stmt::Kind::macro);
  result.text = expect_name();
  parse_parameters(result);
  end_block();
  const int outer_loops = std::exchange(loops_, 0);
  result.body = parse_body({"endmacro"});
  loops_ = outer_loops;
  end_tag("endmacro");
  end_block();
  return result;
}

Stmt Parser::parse_with() {
  Stmt result(Stmt::Kind::with);
  while (current().type != Type::block_end) {
    if (!result.assignments.empty()) expect_op(",");
    ExprPtr target = parse_target(false);
    expect_op("=");
    result.assignments.emplace_back(std::move(target), expression());
  }
  end_block();
  result.body = parse_body({"endwith"});
  end_tag("endwith");
  end_block();
  return result;
}

ExprPtr Parser::parse_one_target(bool allow_member) {
  const Nesting guard(*this);
  if (skip_op("(")) {
    ExprPtr inner = parse_target(false);
    expect_op(")");
    return inner;
  }
  ExprPtr result = node(Expr::Kind::name);
  result->text = expect_name();
  for (const std::string_view reserved : {"true", "false", "none", "True", "False", "None"})
    if (result->text == reserved) fail(fmt::format("cannot assign to {}", reserved));
  if (!allow_member || !skip_op(".")) return result;
  ExprPtr member = node(Expr::Kind::attribute);
  member->text = expect_name();
  adopt(*member, std::move(result));
  return member;
}

ExprPtr Parser::parse_target(bool allow_member) {
  ExprPtr first = parse_one_target(allow_member);
  if (!is_op(",")) return first;
  ExprPtr result = node(Expr::Kind::tuple);
  adopt(*result, std::move(first));
  while (skip_op(",")) {
    if (is_op("=") || is_name("in") || is_op(")")) break;
    adopt(*result, parse_one_target(false));
  }
  return result;
}

}  // namespace tandem::jinja
