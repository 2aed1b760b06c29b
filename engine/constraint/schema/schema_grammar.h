// Converts a schema to a grammar whose texts are all valid for the schema.
#pragma once

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/constraint/schema/grammar_rules.h"
#include "engine/constraint/schema/json_texts.h"
#include "engine/constraint/schema/schema_shape.h"

namespace tandem {

// Single use. Keywords that hold for every generated text are enforced; those that a grammar cannot
// express are refused, or left out if lenient. Properties are generated in the schema's order;
// unnamed properties only if the schema explicitly allows them.
class SchemaGrammar {
 public:
  // `document` must outlive it.
  SchemaGrammar(const nlohmann::ordered_json& document, bool lenient);

  // Returns XGrammar's EBNF. invalid_argument: names what cannot be enforced, or the schema allows
  // no text.
  Result<std::string> write();

 private:
  // Returns a reference to a rule for the values that are valid for all of these schemas.
  Result<TextExpression> value(const Schemas& schemas);
  Result<TextExpression> alternatives(const Schemas& schemas);
  Result<TextExpression> text_of(const SchemaShape& shape);
  TextExpression literals(const SchemaShape& shape);
  Result<TextExpression> number(const SchemaShape& shape, bool integers);
  Result<TextExpression> string(const SchemaShape& shape);
  Result<TextExpression> array(const SchemaShape& shape);
  Result<TextExpression> object(const SchemaShape& shape);
  // Properties without a name in the schema.
  Result<TextExpression> other_properties(const SchemaShape& shape);
  Result<TextExpression> other_name(const SchemaShape& shape, std::vector<std::string>& named);
  // Includes the values of named properties whose names also fall under patterns or additional
  // properties.
  void add_schemas_of(const SchemaShape& shape, const std::vector<std::string>& names,
                      Schemas& schemas);

  Result<TextExpression> property(TextExpression name, const Schemas& schemas);

  SchemaReader reader_;
  const nlohmann::ordered_json* document_;
  GrammarRules rules_;
  std::int32_t root_;
  JsonTexts json_;
  std::map<Schemas, std::int32_t> known_;
  std::deque<std::pair<Schemas, std::int32_t>> to_do_;
};

}  // namespace tandem
