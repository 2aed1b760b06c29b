// Expressions for the texts of JSON values, built on the shared rules of one grammar.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "engine/constraint/schema/grammar_rules.h"
#include "engine/constraint/schema/text_expression.h"

namespace tandem {

// Characters are written literally unless JSON requires an escape, and then in a single form, so
// that no property name has two spellings. An unconstrained string may contain any escape.
class JsonTexts {
 public:
  explicit JsonTexts(GrammarRules& rules);

  TextExpression white_space() const { return by_rule(white_space_); }
  TextExpression any_string() const { return by_rule(string_); }
  TextExpression any_character() const { return by_rule(character_); }
  TextExpression any_characters() const { return by_rule(characters_); }

  // Converts texts to JSON strings with quotes.
  TextExpression string_of(const TextExpression& texts) const;
  // A string that differs from all of these.
  TextExpression string_but(std::span<const std::string> names) const;
  TextExpression literal_of(const nlohmann::ordered_json& value) const;
  static std::string quoted(std::string_view text);

 private:
  TextExpression within_string(const TextExpression& texts) const;
  TextExpression characters_of(const CodeSet& set) const;
  TextExpression but(std::span<const std::u32string> names, std::size_t depth) const;

  std::int32_t white_space_, character_, characters_, string_;
};

}  // namespace tandem
