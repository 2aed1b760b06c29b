// Evaluates a template's tree. One Interpreter renders once, with the active Budget (budget.h). It
// limits the nesting depth itself, to protect the native stack.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tokenizer/jinja/syntax/ast.h"
#include "engine/tokenizer/jinja/values/error.h"
#include "engine/tokenizer/jinja/values/operations.h"
#include "engine/tokenizer/jinja/values/value.h"

namespace tandem::jinja {

inline constexpr int kMaxDepth = 500;                    // limit on nested evaluations and bodies
inline constexpr std::size_t kMaxTextBytes = 16U << 20;  // limit on the output

// Reads the arguments of a built-in in the order of its parameters, by position or by name.
class ArgReader {
 public:
  ArgReader(Args& args, std::string_view function) : args_(args), function_(function) {}
  // Returns the next parameter; the fallback if it was not given.
  Value next(std::string_view name, Value fallback);
  Value require(std::string_view name);
  // Returns one argument by name or by position only; throws Error if it was not given.
  Value named(std::string_view name);
  Value positional(std::size_t index);
  // Returns all further positional arguments.
  Values rest();
  // Throws Error if arguments are left.
  void done() const;

 private:
  bool take(std::string_view name, Value& value);
  Args& args_;
  String function_;
  std::size_t used_ = 0;
  std::size_t named_used_ = 0;
};

class Interpreter {
 public:
  Interpreter() = default;
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void set_global(std::string_view name, Value value);
  // Throws Error.
  String render(const Body& body);

  Value call(const Value& function, Args& args);
  Value add(const Value& a, const Value& b);  // the operator +
  std::shared_ptr<Namespace> make_namespace();

 private:
  enum class Flow { normal, break_, continue_ };
  struct Scope {
    Names<Value> names;
    std::shared_ptr<Scope> parent;
  };
  class ScopeGuard;
  class DepthGuard;

  Flow run(const Body& body);
  Flow run_one(const Stmt& stmt);
  Flow run_for(const Stmt& stmt);
  void run_loop(const Stmt& stmt, const Value& source, std::size_t depth0);
  // loop(items), evaluated in the scope around the loop.
  Value recurse(const Stmt& stmt, const std::shared_ptr<Scope>& scope, Args& args,
                std::size_t depth0);
  String capture(const Body& body);
  template <typename Print>
  String captured(Print&& print);  // returns the printed text
  void write(std::string_view text);
  void assign(const Expr& target, const Value& value);
  Value make_macro(const Stmt& stmt);
  Value call_macro(const Stmt& stmt, const std::shared_ptr<Scope>& scope, Args& args);
  Value call_with_body(const Stmt& stmt);

  Value eval(const Expr& e);
  Value eval_sized(const Expr& e);
  Value eval_name(std::string_view name);
  Value eval_compare(const Expr& e);
  Value eval_filter(const Expr& e, const Value* block_input);
  Value eval_binary(const Expr& e);
  Value multiply(const Value& a, const Value& b);
  Args eval_arguments(const Expr& e);

  int depth_ = 0;
  String* out_ = nullptr;
  Names<Value> globals_;
  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Namespace>, Metered<std::shared_ptr<Namespace>>> namespaces_;
};

// Limits the native stack: every evaluation and every body of statements takes one level.
class Interpreter::DepthGuard {
 public:
  explicit DepthGuard(Interpreter& interpreter) : interpreter_(interpreter) {
    if (interpreter_.depth_ >= kMaxDepth) throw Error("the template is nested too deeply");
    ++interpreter_.depth_;
  }
  ~DepthGuard() { --interpreter_.depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Interpreter& interpreter_;
};

}  // namespace tandem::jinja
