// From a schema to a grammar whose texts are valid against it, all of them.
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

// One use each. What every text is valid against is enforced; what would need more than a grammar
// is refused, or in a lenient one left out. Properties come in the schema's order, and only those
// that it names unless it says that there may be others.
class SchemaGrammar {
 public:
  // `document` outlives it.
  SchemaGrammar(const nlohmann::ordered_json& document, bool lenient);

  // In XGrammar's EBNF. invalid_argument, naming what cannot be enforced, or: it allows no text.
  Result<std::string> write();

 private:
  // A rule for the values that are valid against all of these.
  Result<TextExpression> value(const Schemas& schemas);
  Result<TextExpression> alternatives(const Schemas& schemas);
  Result<TextExpression> text_of(const SchemaShape& shape);
  TextExpression literals(const SchemaShape& shape);
  Result<TextExpression> number(const SchemaShape& shape, bool integers);
  Result<TextExpression> string(const SchemaShape& shape);
  Result<TextExpression> array(const SchemaShape& shape);
  Result<TextExpression> object(const SchemaShape& shape);
  // Properties that the schema does not name.
  Result<TextExpression> other_properties(const SchemaShape& shape);
  Result<TextExpression> other_name(const SchemaShape& shape, std::vector<std::string>& named);
  // The values of named properties, too, whose names a pattern or the like leaves to others.
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
