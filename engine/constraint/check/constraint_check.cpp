#include "engine/constraint/check/constraint_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/limits/bytes_text.h"
#include "engine/constraint/check/escape_check.h"
#include "engine/constraint/check/length_check.h"
#include "engine/constraint/check/pattern_scan.h"
#include "engine/constraint/schema/constraint_rewrite.h"
#include "engine/constraint/schema/pattern.h"
#include "engine/constraint/schema/schema_keywords.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
using Kind = TextConstraint::Kind;

// Statistics of a pattern or of a grammar's text, outside of classes and, in a grammar, of
// literals.
struct Shape {
  std::int32_t repeats = 0;
  std::int32_t nesting = 0;  // maximal nesting of groups
};

Shape shape_of(std::string_view text, bool grammar) {
  Shape shape;
  std::int32_t depth = 0;
  const auto count = [&](std::string_view rest) -> Status {
    const char c = rest[0];
    if (c == '(') {
      shape.nesting = std::max(shape.nesting, ++depth);
    } else if (c == ')') {
      --depth;
    } else if (c == '*' || c == '+' || c == '?' || c == '{') {
      ++shape.repeats;
    }
    return {};
  };
  (void)scan_pattern(
      text, grammar, [](std::string_view, bool) { return Status(); }, count);
  return shape;
}

Status check_shape(std::string_view what, std::string_view text, bool grammar,
                   const ConstraintLimits& limits) {
  const Shape shape = shape_of(text, grammar);
  const std::int32_t most = grammar ? limits.grammar_repeats : limits.pattern_repeats;
  if (shape.repeats > most) {
    return invalid("{} has {} repetitions (*, +, ?, {{}}), more than the {} allowed", what,
                   shape.repeats, most);
  }
  // XGrammar's own parser limits the nesting in grammars, including rules.
  if (!grammar && shape.nesting > limits.nesting) {
    return invalid("{} nests groups {} deep, more than the {} allowed", what, shape.nesting,
                   limits.nesting);
  }
  return grammar ? check_escapes(what, text) : Status();
}

Status check_pattern(std::string_view what, const std::string& text,
                     const ConstraintLimits& limits) {
  TANDEM_TRY(check_shape(what, text, false, limits));
  return parse_pattern(what, text).status();
}

// nlohmann's parser is not recursive, so the text's depth cannot harm it; the check protects the
// recursive parsers that run after it.
class DepthSax final : public nlohmann::json_sax<Json> {
 public:
  DepthSax(std::int32_t most_depth, std::int32_t most_nodes)
      : most_depth_(most_depth), most_nodes_(most_nodes) {}
  const Status& status() const { return status_; }

  bool null() override { return node(); }
  bool boolean(bool) override { return node(); }
  bool number_integer(number_integer_t) override { return node(); }
  bool number_unsigned(number_unsigned_t) override { return node(); }
  bool number_float(number_float_t, const string_t& text) override {
    if (text.find_first_of(".eE") != string_t::npos) return node();
    status_ = invalid("an integer of more than 64 bits");  // such an integer would change its value
    return false;
  }
  bool string(string_t&) override { return node(); }
  bool binary(binary_t&) override { return node(); }
  bool start_object(std::size_t) override { return open(); }
  bool key(string_t&) override { return true; }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t at, const std::string&, const Json::exception&) override {
    status_ = invalid("not JSON, at byte {}", at);
    return false;
  }

 private:
  bool node() {
    if (++nodes_ <= most_nodes_) return true;
    status_ = invalid("more than {} values", most_nodes_);
    return false;
  }
  bool open() {
    if (++depth_ <= most_depth_) return node();
    status_ = invalid("nested more than {} deep", most_depth_);
    return false;
  }
  bool close() {
    --depth_;
    return true;
  }

  std::int32_t most_depth_, most_nodes_, depth_ = 0, nodes_ = 0;
  Status status_;
};

Result<Json> parse_bounded(const std::string& text, const ConstraintLimits& limits) {
  DepthSax sax(limits.nesting, limits.schema_nodes);
  if (!Json::sax_parse(text, &sax)) return sax.status();
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Status check_schema(const Json& schema, const std::string& where, const ConstraintLimits& limits) {
  return check_schema_keywords(schema, where,
                               [&](std::string_view here, const std::string& pattern) {
                                 return check_pattern(here, pattern, limits);
                               });
}

// Checks schemas anywhere in a structural tag.
Status check_tag(const Json& value, const ConstraintLimits& limits) {
  if (!value.is_structured()) return {};
  const auto effort = value.is_object() ? value.find(kBestEffort) : value.end();
  const bool lenient = effort != value.end() && *effort == true;
  for (const auto& [name, each] : value.items()) {
    if (value.is_object() && (name == "json_schema" || name == "schema")) {
      if (!lenient) TANDEM_TRY(check_schema(each, name, limits));
    } else if (value.is_object() && name == "pattern" && each.is_string()) {
      TANDEM_TRY(check_pattern(name, each.get_ref<const std::string&>(), limits));
    } else if (value.is_object() && name == "grammar" && each.is_string()) {
      TANDEM_TRY(check_shape(name, each.get_ref<const std::string&>(), true, limits));
    } else {
      TANDEM_TRY(check_tag(each, limits));
    }
  }
  return {};
}

}  // namespace

Status check_constraint(const TextConstraint& constraint, const ConstraintLimits& limits) {
  const std::string& text = constraint.text;
  if (text.size() > limits.text_bytes) {
    return invalid("it has {}, more than the {} allowed", size_text(text.size()),
                   size_text(limits.text_bytes));
  }
  if (constraint.kind != Kind::none && constraint.kind != Kind::json_object && text.empty()) {
    return invalid("it is empty");
  }
  if (constraint.kind == Kind::json_schema || constraint.kind == Kind::structural_tag) {
    TANDEM_TRY(check_lengths(text, limits.schema_lengths));
  }
  switch (constraint.kind) {
    case Kind::none:
    case Kind::json_object:
      return {};
    case Kind::regex:
      return check_pattern("the pattern", text, limits);
    case Kind::grammar:
      return check_shape("the grammar", text, true, limits);
    case Kind::json_schema: {
      TANDEM_ASSIGN(const Json schema, parse_bounded(text, limits));
      return check_schema(schema, "#", limits);
    }
    case Kind::structural_tag: {
      TANDEM_ASSIGN(const Json tag, parse_bounded(text, limits));
      if (!tag.is_object()) return invalid("it is no object");
      return check_tag(tag, limits);
    }
  }
  return invalid("an unknown kind of constraint");
}

}  // namespace tandem
