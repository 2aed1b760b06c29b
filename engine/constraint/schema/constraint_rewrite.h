// Rewrites schemas and patterns to grammars, which XGrammar enforces exactly. XGrammar's own
// conversion ignores parts of a schema, and allows texts that are not valid JSON.
#pragma once

#include "base/status.h"
#include "engine/service/generation.h"

namespace tandem {

// A member of a structural tag's format "json_schema". If true, parts that cannot be enforced are
// left out instead of being an error.
inline constexpr const char* kBestEffort = "best_effort";

// Returns a grammar, or a structural tag whose schemas and patterns are grammars. Time and memory
// are bounded by the text's size and the limits on schemas; runs in this process. invalid_argument
// names the keyword, or the part of a pattern, that cannot be enforced.
Result<TextConstraint> rewrite_constraint(const TextConstraint& constraint);

}  // namespace tandem
