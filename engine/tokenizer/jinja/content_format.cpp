#include "engine/tokenizer/jinja/content_format.h"

#include <set>

namespace tandem::jinja {
namespace {

class Search {
 public:
  // Several rounds, to follow names that are set to other names, and macros that use names set
  // after them.
  bool find(const Body& body) {
    constexpr int kRounds = 4;
    for (int round = 0; round < kRounds && !found_; ++round) walk(body);
    return found_;
  }

 private:
  void walk(const Body& body) {
    for (const Stmt& stmt : body) {
      if (stmt.kind == Stmt::Kind::set && stmt.target->kind == Expr::Kind::name &&
          is_content(stmt.expr.get()))
        names_.insert(stmt.target->text);
      if (stmt.kind == Stmt::Kind::for_ && is_content(stmt.expr.get())) found_ = true;
      walk(stmt.body);
      walk(stmt.other);
      for (const auto& [condition, branch] : stmt.branches) walk(branch);
    }
  }

  bool is_content(const Expr* e) const {
    if (e == nullptr) return false;
    switch (e->kind) {
      case Expr::Kind::name:
        return names_.contains(e->text);
      case Expr::Kind::attribute:
        return e->text == "content";
      case Expr::Kind::item: {
        const String* key = e->children[1]->value.as<String>();
        return e->children[1]->kind == Expr::Kind::constant && key != nullptr && *key == "content";
      }
      case Expr::Kind::slice:
      case Expr::Kind::filter:
        return is_content(e->children[0].get());
      default:
        return false;
    }
  }

  std::set<std::string, std::less<>> names_;
  bool found_ = false;
};

}  // namespace

bool loops_over_content(const Body& body) {
  return Search().find(body);
}

}  // namespace tandem::jinja
