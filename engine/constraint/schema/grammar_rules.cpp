#include "engine/constraint/schema/grammar_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tandem {
namespace {

using Kind = TextExpression::Kind;

bool has_texts(const TextExpression& each, const std::vector<bool>& rules) {
  const auto part_has = [&](const TextExpression& part) { return has_texts(part, rules); };
  switch (each.kind) {
    case Kind::never:
    case Kind::begin:
    case Kind::end:
      return false;
    case Kind::characters:
    case Kind::text:
      return true;
    case Kind::sequence:
      return std::ranges::all_of(each.parts, part_has);
    case Kind::choice:
      return std::ranges::any_of(each.parts, part_has);
    case Kind::repeat:
      return each.least == 0 || part_has(each.parts.front());
    case Kind::rule:
      return rules[static_cast<std::size_t>(each.rule)];
  }
  return false;
}

class Writer {
 public:
  Writer(const std::vector<bool>& has_texts, std::size_t most_bytes)
      : has_texts_(&has_texts), most_bytes_(most_bytes) {}

  static std::string name_of(std::int32_t rule) {
    return rule == 0 ? "root" : fmt::format("r{}", rule);
  }

  const std::string& text() const { return text_; }
  bool is_too_long() const { return text_.size() > most_bytes_; }
  // The rules referred to, in the order of first reference.
  const std::vector<std::int32_t>& met() const { return met_; }

  void rule(std::int32_t rule, const TextExpression& says) {
    text_ += name_of(rule) + " ::= ";
    whole(says);
    text_ += '\n';
  }
  void meet(std::int32_t rule) {
    if (seen_.size() <= static_cast<std::size_t>(rule)) {
      seen_.resize(static_cast<std::size_t>(rule) + 1);
    }
    if (seen_[static_cast<std::size_t>(rule)]) return;
    seen_[static_cast<std::size_t>(rule)] = true;
    met_.push_back(rule);
  }

 private:
  // Writes an expression, with parentheses if its surroundings require them.
  void part(const TextExpression& each) {
    const bool is_list = each.kind == Kind::choice || each.kind == Kind::sequence;
    if (is_list) text_ += '(';
    whole(each);
    if (is_list) text_ += ')';
  }

  void whole(const TextExpression& each) {
    if (is_too_long()) return;
    switch (each.kind) {
      case Kind::sequence:
      case Kind::choice:
        return list(each);
      case Kind::characters:
        return characters(each.characters);
      case Kind::text:
        return literal_of(each.text);
      case Kind::repeat:
        return repeat(each);
      case Kind::rule:
        meet(each.rule);
        text_ += name_of(each.rule);
        return;
      default:
        text_ += "\"\"";
    }
  }

  void list(const TextExpression& each) {
    bool first = true;
    for (const TextExpression& inner : each.parts) {
      if (!has_texts(inner, *has_texts_)) continue;
      if (!first) text_ += each.kind == Kind::choice ? " | " : " ";
      first = false;
      part(inner);
    }
    if (first) text_ += "\"\"";
  }

  void repeat(const TextExpression& each) {
    const TextExpression& inner = each.parts.front();
    if (!has_texts(inner, *has_texts_)) {
      text_ += "\"\"";
      return;
    }
    // Two repetition marks may not be adjacent.
    if (inner.kind == Kind::repeat) text_ += '(';
    part(inner);
    if (inner.kind == Kind::repeat) text_ += ')';
    if (each.least == 0 && each.most == 1) {
      text_ += '?';
    } else if (each.most < 0 && each.least <= 1) {
      text_ += each.least == 0 ? '*' : '+';
    } else if (each.most < 0) {
      text_ += fmt::format("{{{},}}", each.least);
    } else if (each.most == each.least) {
      text_ += fmt::format("{{{}}}", each.least);
    } else {
      text_ += fmt::format("{{{},{}}}", each.least, each.most);
    }
  }

  void literal_of(const std::string& text) {
    text_ += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        text_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  void character(char32_t c) {
    const auto number = static_cast<std::uint32_t>(c);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
      text_ += static_cast<char>(c);
    } else {
      text_ += c < 0x10000 ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
    }
  }

  void characters(const CodeSet& set) {
    text_ += '[';
    for (const CodeRange& range : set.ranges()) {
      character(range.first);
      if (range.last > range.first + 1) text_ += '-';
      if (range.last > range.first) character(range.last);
    }
    text_ += ']';
  }

  const std::vector<bool>* has_texts_;
  const std::size_t most_bytes_;
  std::string text_;
  std::vector<bool> seen_;
  std::vector<std::int32_t> met_;
};

}  // namespace

std::int32_t GrammarRules::add() {
  rules_.push_back(no_text());
  return static_cast<std::int32_t>(rules_.size()) - 1;
}

void GrammarRules::define(std::int32_t rule, TextExpression says) {
  rules_[static_cast<std::size_t>(rule)] = std::move(says);
}

Result<std::string> GrammarRules::write(std::size_t most_bytes) const {
  std::vector<bool> known(rules_.size(), false);
  // Rules refer mostly to later ones, so a few passes from the last to the first suffice.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = rules_.size(); i-- > 0;) {
      if (known[i] || !has_texts(rules_[i], known)) continue;
      known[i] = changed = true;
    }
  }
  if (rules_.empty() || !known[0]) return invalid("it allows no text at all");
  Writer writer(known, most_bytes);
  writer.meet(0);
  for (std::size_t i = 0; i < writer.met().size(); ++i) {
    const std::int32_t rule = writer.met()[i];
    writer.rule(rule, rules_[static_cast<std::size_t>(rule)]);
    if (writer.is_too_long())
      return invalid("what it allows takes too long a grammar: simplify it");
  }
  return writer.text();
}

}  // namespace tandem
