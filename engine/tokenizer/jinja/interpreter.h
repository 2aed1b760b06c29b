// Evaluates a template's tree. One Interpreter renders once; all it reaches is bounded: steps,
// bytes of text, depth.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/tokenizer/jinja/ast.h"
#include "engine/tokenizer/jinja/value.h"

namespace tandem::jinja {

// Reads the arguments of a built-in in the order of its parameters, by place or by name.
class ArgReader {
 public:
  ArgReader(Args& args, std::string_view function) : args_(args), function_(function) {}
  // The next parameter; the fallback if it was not given.
  Value next(std::string_view name, Value fallback);
  Value require(std::string_view name);
  // One argument by name or by place alone; throws Error if it was not given.
  Value named(std::string_view name);
  Value positional(std::size_t index);
  // All further positional arguments.
  Values rest();
  // Throws Error if arguments are left.
  void done() const;

 private:
  bool take(std::string_view name, Value& value);
  Args& args_;
  std::string function_;
  std::size_t used_ = 0;
  std::size_t named_used_ = 0;
};

class Interpreter {
 public:
  struct Limits {
    std::uint64_t steps = 5'000'000;
    std::size_t text_bytes = 16U << 20;  // of one string, and of the output
    int depth = 500;
  };

  Interpreter() = default;
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void set_global(const std::string& name, Value value);
  // Throws Error.
  std::string render(const Body& body);

  // For the built-ins: pay for work before doing it. Throws Error when nothing is left.
  void charge(std::uint64_t steps);
  void charge_text(std::size_t bytes);  // a string of so many bytes is made
  void charge_for(const Value& value);  // all of a value is looked at
  Value call(const Value& function, Args& args);
  Value add(const Value& a, const Value& b);  // the operator +
  std::shared_ptr<Namespace> make_namespace();

 private:
  enum class Flow { normal, break_, continue_ };
  struct Scope {
    std::unordered_map<std::string, Value> names;
    std::shared_ptr<Scope> parent;
  };
  class ScopeGuard;
  class DepthGuard;

  Flow run(const Body& body);
  Flow run_one(const Stmt& stmt);
  Flow run_for(const Stmt& stmt);
  std::string capture(const Body& body);
  void write(std::string_view text);
  void assign(const Expr& target, const Value& value);
  Value make_macro(const Stmt& stmt);
  Value call_macro(const Stmt& stmt, const std::shared_ptr<Scope>& scope, Args& args);

  Value eval(const Expr& e);
  Value eval_sized(const Expr& e);
  Value eval_name(const std::string& name);
  Value eval_compare(const Expr& e);
  Value eval_filter(const Expr& e, const Value* block_input);
  Value eval_binary(const Expr& e);
  Value multiply(const Value& a, const Value& b);
  Args eval_arguments(const Expr& e);

  Limits limits_;
  std::uint64_t steps_ = 0;
  int depth_ = 0;
  std::string* out_ = nullptr;
  std::unordered_map<std::string, Value> globals_;
  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

// Bounds the native stack: every evaluation and every body of statements takes one level.
class Interpreter::DepthGuard {
 public:
  explicit DepthGuard(Interpreter& interpreter) : interpreter_(interpreter) {
    if (interpreter_.depth_ >= interpreter_.limits_.depth)
      throw Error("the template is nested too deeply");
    ++interpreter_.depth_;
  }
  ~DepthGuard() { --interpreter_.depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Interpreter& interpreter_;
};

// printf-style formatting of Python's % operator: %s, %r, %d, %i and %%.
std::string format_percent(const std::string& format, const Value& values);

}  // namespace tandem::jinja
