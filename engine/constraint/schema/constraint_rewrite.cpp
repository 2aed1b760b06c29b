#include "engine/constraint/schema/constraint_rewrite.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/json/json_equals.h"
#include "engine/constraint/schema/grammar_rules.h"
#include "engine/constraint/schema/pattern.h"
#include "engine/constraint/schema/schema_grammar.h"
#include "engine/constraint/schema/schema_keywords.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// The size for 64 KiB of dots. The compile process limits time and memory.
constexpr std::size_t kMostPatternBytes = std::size_t{8} << 20;
constexpr const char* kAnyObject = R"({"type":"object"})";

Result<std::string> grammar_of_schema(const Json& schema, bool lenient) {
  if (!lenient) {
    TANDEM_TRY(
        check_schema_keywords(schema, "#", [](std::string_view where, const std::string& pattern) {
          return parse_pattern(where, pattern).status();
        }));
  }
  auto grammar = SchemaGrammar(schema, lenient).write();
  if (grammar || !lenient) return grammar;
  const Json any = Json::parse(kAnyObject);
  return SchemaGrammar(any, false).write();
}

Result<std::string> grammar_of_pattern(const std::string& pattern) {
  TANDEM_ASSIGN(const TextExpression parsed, parse_pattern("the pattern", pattern));
  TANDEM_ASSIGN(TextExpression texts, texts_matched("the pattern", parsed));
  GrammarRules rules;
  rules.define(rules.add(), std::move(texts));
  return rules.write(kMostPatternBytes);
}

Result<Json> parsed(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return invalid("not JSON");
  return json;
}

Json as_grammar(std::string grammar) {
  return {{"type", "grammar"}, {"grammar", std::move(grammar)}};
}

// Recursion is as deep as the text, whose depth was checked before.
Status rewrite_formats(Json& value) {
  if (!value.is_structured()) return {};
  if (value.is_object()) {
    const auto type = value.find("type");
    const auto is = [&](const char* name) {
      return type != value.end() ? is_text(*type, name) : value.contains(name);
    };
    if (is("json_schema") && value.contains("json_schema")) {
      for (const auto& [name, each] : value.items()) {
        const bool other_style = name == "style" && !is_text(each, "json");
        const bool excludes = name == "excludes" && !(each.is_array() && each.empty());
        if (other_style || excludes || (name == "any_order" && each == true)) {
          return invalid("'{}' of a json_schema is not supported", name);
        }
      }
      const auto effort = value.find(kBestEffort);
      TANDEM_ASSIGN(
          std::string grammar,
          grammar_of_schema(value["json_schema"], effort != value.end() && *effort == true));
      value = as_grammar(std::move(grammar));
      return {};
    }
    if (is("qwen_xml_parameter")) return invalid("'qwen_xml_parameter' is not supported");
    if (type != value.end() && is_text(*type, "regex") && value.contains("pattern") &&
        value["pattern"].is_string()) {
      if (value.contains("excludes") && !value["excludes"].empty()) {
        return invalid("'excludes' of a regex is not supported");
      }
      TANDEM_ASSIGN(std::string grammar,
                    grammar_of_pattern(value["pattern"].get_ref<const std::string&>()));
      value = as_grammar(std::move(grammar));
      return {};
    }
  }
  for (Json& each : value) TANDEM_TRY(rewrite_formats(each));
  return {};
}

}  // namespace

Result<TextConstraint> rewrite_constraint(const TextConstraint& constraint) {
  switch (constraint.kind) {
    case TextConstraint::Kind::json_object:
      return rewrite_constraint({TextConstraint::Kind::json_schema, kAnyObject});
    case TextConstraint::Kind::json_schema: {
      TANDEM_ASSIGN(const Json schema, parsed(constraint.text));
      TANDEM_ASSIGN(std::string grammar, grammar_of_schema(schema, /*lenient=*/false));
      return TextConstraint{TextConstraint::Kind::grammar, std::move(grammar)};
    }
    case TextConstraint::Kind::regex: {
      TANDEM_ASSIGN(std::string grammar, grammar_of_pattern(constraint.text));
      return TextConstraint{TextConstraint::Kind::grammar, std::move(grammar)};
    }
    case TextConstraint::Kind::structural_tag: {
      TANDEM_ASSIGN(Json tag, parsed(constraint.text));
      TANDEM_TRY(rewrite_formats(tag));
      return TextConstraint{TextConstraint::Kind::structural_tag,
                            tag.dump(-1, ' ', false, Json::error_handler_t::replace)};
    }
    case TextConstraint::Kind::none:
    case TextConstraint::Kind::grammar:
      break;
  }
  return constraint;
}

}  // namespace tandem
