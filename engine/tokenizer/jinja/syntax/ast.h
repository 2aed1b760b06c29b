// The syntax tree of a template. Built by the parser, read-only afterwards.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tokenizer/jinja/values/value.h"

namespace tandem::jinja {

class Interpreter;
using FilterFunction = Value (*)(Interpreter&, const Value& input, Args&);
using TestFunction = bool (*)(Interpreter&, const Value& input, Args&);

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

// Deeper trees are refused, because evaluating and freeing them is recursive.
inline constexpr int kMaxTreeDepth = 200;

struct Expr {
  enum class Kind {
    constant,     // value
    name,         // text
    list,         // children
    tuple,        // children
    dict,         // children: key, value, key, value...
    attribute,    // children[0].text
    item,         // children[0][children[1]]
    slice,        // children[0][children[1]:children[2]:children[3]]
    call,         // children[0](arguments)
    filter,       // children[0] | text(arguments); children[0] null in {% filter %} and set blocks
    test,         // children[0] is text(arguments)
    negative,     // -children[0]
    positive,     // +children[0]
    logical_not,  // not children[0]
    logical_and,
    logical_or,
    binary,       // children[0] text children[1]
    concat,       // children[0] ~ children[1] ~ ...
    compare,      // children[0] ops[0] children[1] ops[1] children[2] ...
    conditional,  // children[0] if children[1] else children[2]; the last may be absent
  };
  Kind kind;
  int line = 0;
  int depth = 1;
  std::string text;
  Value value;
  std::vector<ExprPtr> children;
  std::vector<std::string> ops;
  std::vector<ExprPtr> positional;  // arguments
  std::vector<std::pair<std::string, ExprPtr>> named;
  FilterFunction filter = nullptr;
  TestFunction test = nullptr;
};

struct Stmt;
using Body = std::vector<Stmt>;

struct Stmt {
  enum class Kind {
    text,          // text
    output,        // expr
    if_,           // branches in order; a branch without a condition is else
    for_,          // for target in expr if condition: body else other
    set,           // target = expr
    set_block,     // target = output of body, through the filters of expr if there are any
    macro,         // text(parameters) prints body
    filter_block,  // prints the output of body through the filters of expr
    call_block,    // prints the result of the call expr; its caller(parameters) prints body
    block,         // body, with top-level names only
    with,          // assignments, body
    group,         // body (generation marks)
    break_,
    continue_,
  };
  explicit Stmt(Kind k) : kind(k) {}

  Kind kind;
  int line = 0;
  std::string text;
  bool recursive = false;  // for_
  ExprPtr target;          // a name, an attribute (namespace member) or a tuple of targets
  ExprPtr expr;
  ExprPtr condition;
  Body body;
  Body other;
  std::vector<std::pair<ExprPtr, Body>> branches;
  std::vector<std::pair<std::string, ExprPtr>> parameters;  // name, default (may be null)
  std::vector<std::pair<ExprPtr, ExprPtr>> assignments;
};

// Lookup of the existing filters and tests; null for unknown names.
struct Builtins {
  FilterFunction (*filter)(std::string_view name);
  TestFunction (*test)(std::string_view name);
};

// Throws Error with the name of an unsupported construct.
Body parse(std::string_view source, const Builtins& builtins);

}  // namespace tandem::jinja
