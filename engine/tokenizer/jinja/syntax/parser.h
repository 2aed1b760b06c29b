// A recursive descent parser over the tokens of a template, for the parser's two source files
// (expressions and statements) only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/jinja/syntax/ast.h"
#include "engine/tokenizer/jinja/syntax/lexer.h"

namespace tandem::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, const Builtins& builtins)
      : tokens_(std::move(tokens)), builtins_(builtins) {}
  Body parse_template();

 private:
  // Tokens.
  const Token& current() const { return tokens_[pos_]; }
  const Token& ahead() const { return tokens_[pos_ + 1 < tokens_.size() ? pos_ + 1 : pos_]; }
  const Token& take();
  bool is_op(std::string_view op) const;
  bool is_name(std::string_view name) const;
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  std::string expect_name();
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_unexpected(const std::string& wanted) const;

  // Expressions, in order of increasing precedence.
  ExprPtr expression(bool with_conditional = true);
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter);
  ExprPtr parse_primary();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters(ExprPtr node);
  ExprPtr parse_one_filter(ExprPtr input);
  ExprPtr parse_test(ExprPtr input);
  ExprPtr parse_subscript(ExprPtr node);
  void parse_arguments(Expr& call);
  // Parses one expression, or a tuple if there are commas. `parenthesized` allows the empty tuple.
  ExprPtr parse_tuple(bool with_conditional, bool parenthesized = false);
  bool tuple_ends() const;
  ExprPtr node(Expr::Kind kind) const;
  void adopt(Expr& parent, ExprPtr child) const;

  // Statements.
  Body parse_body(std::initializer_list<std::string_view> ends);
  Stmt parse_statement(const std::string& tag);
  Stmt parse_if();
  Stmt parse_for();
  Stmt parse_set();
  Stmt parse_macro();
  Stmt parse_call();
  Stmt parse_block();
  void parse_parameters(Stmt& macro);
  Stmt parse_with();
  ExprPtr parse_target(bool allow_member);
  ExprPtr parse_one_target(bool allow_member);
  void end_block();
  void end_tag(std::string_view name);  // reads the closing tag, at which parse_body stopped

  std::vector<Token> tokens_;
  Builtins builtins_;
  std::size_t pos_ = 0;
  int nesting_ = 0;  // depth of the recursion
  int loops_ = 0;    // number of enclosing loops, for break and continue

  struct Nesting;
};

// Limits the recursion, so that hostile templates cannot exhaust the stack.
struct Parser::Nesting {
  explicit Nesting(Parser& p) : parser(p) {
    constexpr int kMaxNesting = 100;
    if (++parser.nesting_ > kMaxNesting) {
      --parser.nesting_;
      parser.fail("nested too deeply");
    }
  }
  ~Nesting() { --parser.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  Parser& parser;
};

}  // namespace tandem::jinja
