// What a string of a "format" may be: less than the format's standard allows where that is simpler,
// never more.
#pragma once

#include <string>

#include "engine/constraint/schema/text_expression.h"

namespace tandem {

// Others say nothing, as JSON Schema has it.
bool is_known_format(const std::string& name);
// Of a known one. Thread-safe.
const TextExpression& texts_of_format(const std::string& name);

}  // namespace tandem
