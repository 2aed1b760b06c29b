// What comes before XGrammar: schemas and patterns become grammars that it enforces to the letter.
// What it makes of those itself leaves parts of a schema out, and lets through texts that are no
// JSON.
#pragma once

#include "base/status.h"
#include "engine/service/generation.h"

namespace tandem {

// The member of a structural tag's format "json_schema" that says: what cannot be enforced is left
// out, where it would be an error.
inline constexpr const char* kBestEffort = "best_effort";

// A grammar, or a structural tag whose schemas and patterns are grammars. Bounded in time and
// memory by the text's size and what the schema may ask for; calls nobody else. invalid_argument,
// naming the keyword or the part of a pattern that cannot be enforced.
Result<TextConstraint> rewrite_constraint(const TextConstraint& constraint);

}  // namespace tandem
