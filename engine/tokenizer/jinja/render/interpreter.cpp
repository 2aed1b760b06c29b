#include "engine/tokenizer/jinja/render/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/limits/bytes_text.h"
#include "engine/tokenizer/jinja/values/print.h"

namespace tandem::jinja {

using Kind = Stmt::Kind;

// A scope for the duration of a block. Its names are cleared at the end, because a macro and the
// scope that it was defined in own each other, and neither would be freed otherwise.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, std::shared_ptr<Scope> parent)
      : interpreter_(interpreter), outer_(interpreter.scope_) {
    interpreter_.scope_ = make_metered<Scope>();
    interpreter_.scope_->parent = std::move(parent);
  }
  explicit ScopeGuard(Interpreter& interpreter) : ScopeGuard(interpreter, interpreter.scope_) {}
  ~ScopeGuard() {
    interpreter_.scope_->names.clear();
    interpreter_.scope_ = outer_;
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> outer_;
};

// Clears the arguments of loop.changed() and the function of loop(...), which may hold the loop
// itself.
struct LoopGuard {
  explicit LoopGuard(Loop& l) : loop(l) {}
  ~LoopGuard() {
    loop.changed.clear();
    loop.recurse = nullptr;
  }
  LoopGuard(const LoopGuard&) = delete;
  LoopGuard& operator=(const LoopGuard&) = delete;
  Loop& loop;
};

Interpreter::~Interpreter() {
  for (const auto& n : namespaces_) n->members.clear();  // they may own one another
}

void Interpreter::set_global(std::string_view name, Value value) {
  globals_[String(name)] = std::move(value);
}

std::shared_ptr<Namespace> Interpreter::make_namespace() {
  namespaces_.push_back(make_metered<Namespace>());
  return namespaces_.back();
}

String Interpreter::render(const Body& body) {
  const ScopeGuard guard(*this, nullptr);
  return capture(body);
}

template <typename Print>
String Interpreter::captured(Print&& print) {
  String text;
  String* outer = std::exchange(out_, &text);
  try {
    print();
  } catch (...) {
    out_ = outer;
    throw;
  }
  out_ = outer;
  return text;
}

String Interpreter::capture(const Body& body) {
  return captured([&] { run(body); });
}

void Interpreter::write(std::string_view text) {
  if (text.size() > kMaxTextBytes - std::min(out_->size(), kMaxTextBytes))
    throw Error(fmt::format("the template prints more than {}", size_text(kMaxTextBytes)));
  spend(text.size());
  *out_ += text;
}

Interpreter::Flow Interpreter::run(const Body& body) {
  const DepthGuard guard(*this);
  for (const Stmt& stmt : body) {
    spend_steps(1);
    Flow flow = Flow::normal;
    try {
      flow = run_one(stmt);
    } catch (Error& e) {
      if (e.line == 0) e.line = stmt.line;
      throw;
    }
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_one(const Stmt& stmt) {
  switch (stmt.kind) {
    case Kind::text:
      write(stmt.text);
      return Flow::normal;
    case Kind::output:
      write(str(eval(*stmt.expr)));
      return Flow::normal;
    case Kind::if_:
      for (const auto& [condition, body] : stmt.branches)
        if (condition == nullptr || truthy(eval(*condition))) return run(body);
      return Flow::normal;
    case Kind::for_:
      return run_for(stmt);
    case Kind::call_block:
      write(str(call_with_body(stmt)));
      return Flow::normal;
    case Kind::block: {
      std::shared_ptr<Scope> outermost = scope_;
      while (outermost->parent != nullptr) outermost = outermost->parent;
      const ScopeGuard guard(*this, std::move(outermost));
      return run(stmt.body);
    }
    case Kind::set:
      assign(*stmt.target, eval(*stmt.expr));
      return Flow::normal;
    case Kind::set_block:
    case Kind::filter_block: {
      Value text;
      {
        const ScopeGuard guard(*this);
        text = Value(capture(stmt.body));
      }
      if (stmt.expr != nullptr) text = eval_filter(*stmt.expr, &text);
      if (stmt.kind == Kind::set_block) {
        assign(*stmt.target, text);
      } else {
        write(str(text));
      }
      return Flow::normal;
    }
    case Kind::macro:
      scope_->names[String(stmt.text)] = make_macro(stmt);
      return Flow::normal;
    case Kind::with: {
      std::vector<Value> values;  // all are evaluated in the outer scope
      for (const auto& [target, expr] : stmt.assignments) values.push_back(eval(*expr));
      const ScopeGuard guard(*this);
      for (std::size_t i = 0; i < values.size(); ++i) assign(*stmt.assignments[i].first, values[i]);
      return run(stmt.body);
    }
    case Kind::group:
      return run(stmt.body);
    case Kind::break_:
      return Flow::break_;
    case Kind::continue_:
      return Flow::continue_;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_for(const Stmt& stmt) {
  run_loop(stmt, eval(*stmt.expr), 0);
  return Flow::normal;
}

Value Interpreter::recurse(const Stmt& stmt, const std::shared_ptr<Scope>& scope, Args& args,
                           std::size_t depth0) {
  const DepthGuard deeper(*this);
  ArgReader reader(args, "loop");
  const Value items = reader.require("items");
  reader.done();
  const ScopeGuard guard(*this, scope);
  return Value(captured([&] { run_loop(stmt, items, depth0); }));
}

void Interpreter::run_loop(const Stmt& stmt, const Value& source, std::size_t depth0) {
  spend_for(source);
  std::shared_ptr<const Sequence> items = iterate(source);
  if (stmt.condition != nullptr) {
    auto kept = make_metered<Sequence>();
    kept->depth = items->depth;
    for (const Value& item : items->items) {
      spend_steps(1);
      const ScopeGuard guard(*this);
      assign(*stmt.target, item);
      if (truthy(eval(*stmt.condition))) kept->items.push_back(item);
    }
    items = kept;
  }
  if (items->items.empty()) {
    const ScopeGuard guard(*this);
    run(stmt.other);
    return;
  }
  auto loop = make_metered<Loop>();
  loop->items = items;
  loop->depth0 = depth0;
  if (stmt.recursive) {
    loop->recurse = [&stmt, scope = scope_, depth0](Interpreter& interpreter, Args& args) {
      return interpreter.recurse(stmt, scope, args, depth0 + 1);
    };
  }
  const LoopGuard forget(*loop);
  Flow flow = Flow::normal;
  for (std::size_t i = 0; i < items->items.size() && flow != Flow::break_; ++i) {
    spend_steps(1);
    loop->index0 = i;
    const ScopeGuard guard(*this);
    scope_->names.emplace("loop", Value(loop));
    assign(*stmt.target, items->items[i]);
    flow = run(stmt.body);
  }
}

void Interpreter::assign(const Expr& target, const Value& value) {
  if (target.kind == Expr::Kind::name) {
    scope_->names[String(target.text)] = value;
    return;
  }
  if (target.kind == Expr::Kind::attribute) {
    Namespace* space = eval(*target.children[0]).as<Namespace>();
    if (space == nullptr)
      throw Error("only members of a namespace can be assigned to", target.line);
    space->members[String(target.text)] = value;
    return;
  }
  spend_for(value);
  const std::shared_ptr<const Sequence> items = iterate(value);
  if (items->items.size() != target.children.size())
    throw Error(fmt::format("{} values for {} names", items->items.size(), target.children.size()),
                target.line);
  for (std::size_t i = 0; i < target.children.size(); ++i)
    assign(*target.children[i], items->items[i]);
}

Value Interpreter::make_macro(const Stmt& stmt) {
  return make_function(stmt.text, [&stmt, scope = scope_](Interpreter& interpreter, Args& args) {
    return interpreter.call_macro(stmt, scope, args);
  });
}

Value Interpreter::call_macro(const Stmt& stmt, const std::shared_ptr<Scope>& scope, Args& args) {
  const ScopeGuard guard(*this, scope);
  const auto caller = std::find_if(args.named.begin(), args.named.end(),
                                   [](const auto& named) { return named.first == "caller"; });
  if (caller != args.named.end()) {
    scope_->names["caller"] = caller->second;
    args.named.erase(caller);
  }
  ArgReader reader(args, stmt.text);
  for (const auto& [name, fallback] : stmt.parameters) {
    Value value = reader.next(name, make_undefined(name));
    if (is_undefined(value) && fallback != nullptr) value = eval(*fallback);
    scope_->names[String(name)] = std::move(value);
  }
  reader.done();
  return Value(capture(stmt.body));
}

Value Interpreter::call_with_body(const Stmt& stmt) {
  const Expr& e = *stmt.expr;
  const Value function = eval(*e.children[0]);
  Args args = eval_arguments(e);
  args.named.emplace_back("caller", make_macro(stmt));
  return call(function, args);
}

Value Interpreter::call(const Value& function, Args& args) {
  if (const Loop* loop = function.as<Loop>(); loop != nullptr && loop->recurse) {
    spend_steps(1);
    const Function::Call again = loop->recurse;  // copied, because the loop may end during the call
    return again(*this, args);
  }
  if (const Undefined* missing = function.as<Undefined>())
    throw Error(fmt::format("'{}' is undefined", missing->name));
  const Function* f = function.as<Function>();
  if (f == nullptr) throw Error(fmt::format("a {} cannot be called", type_name(function)));
  spend_steps(1);
  return f->call(*this, args);
}

bool ArgReader::take(std::string_view name, Value& value) {
  if (used_ < args_.positional.size()) {
    value = args_.positional[used_++];
    return true;
  }
  for (const auto& [given, v] : args_.named) {
    if (given != name) continue;
    value = v;
    ++named_used_;
    return true;
  }
  return false;
}

Value ArgReader::next(std::string_view name, Value fallback) {
  take(name, fallback);
  return fallback;
}

Value ArgReader::require(std::string_view name) {
  Value value;
  if (!take(name, value)) throw Error(fmt::format("{}: argument {} is missing", function_, name));
  return value;
}

Value ArgReader::named(std::string_view name) {
  for (const auto& [given, value] : args_.named) {
    if (given != name) continue;
    named_used_ = args_.named.size();  // a format may use a value several times or not at all
    return value;
  }
  throw Error(fmt::format("{}: argument {} is missing", function_, name));
}

Value ArgReader::positional(std::size_t index) {
  if (index >= args_.positional.size())
    throw Error(fmt::format("{}: argument {} is missing", function_, index));
  used_ = args_.positional.size();
  return args_.positional[index];
}

Values ArgReader::rest() {
  Values values(args_.positional.begin() + static_cast<std::ptrdiff_t>(used_),
                args_.positional.end());
  used_ = args_.positional.size();
  return values;
}

void ArgReader::done() const {
  if (used_ < args_.positional.size())
    throw Error(fmt::format("{}: too many arguments", function_));
  if (named_used_ < args_.named.size())
    throw Error(
        fmt::format("{}: an argument has a name it does not know, or is given twice", function_));
}

}  // namespace tandem::jinja
