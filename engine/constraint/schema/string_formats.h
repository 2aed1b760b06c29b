// The strings generated for a "format": a subset of the format's standard if that is simpler, never
// more.
#pragma once

#include <string>

#include "engine/constraint/schema/text_expression.h"

namespace tandem {

// Unknown formats have no effect, as JSON Schema specifies.
bool is_known_format(const std::string& name);
// Requires a known format. Thread-safe.
const TextExpression& texts_of_format(const std::string& name);

}  // namespace tandem
