// What a constraint may ask for, judged before anything is made of it: a stranger wrote it, and
// what it asks for may take the compiler minutes or leave out what it cannot do.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "engine/service/generation.h"

namespace tandem {

struct ConstraintLimits {
  std::size_t text_bytes = std::size_t{64} << 10;
  std::int32_t nesting = 64;  // of JSON, and of groups in a pattern
  // Compiling takes time that grows with the cube of these, in one pattern or grammar.
  std::int32_t pattern_repeats = 100;  // *, +, ?, {...}
  std::int32_t grammar_repeats = 400;
  std::int32_t schema_nodes = 5000;  // values of any kind
  // Of a schema, those that differ (check_lengths): with so many it takes longer to compile than
  // any request is given, whatever the vocabulary.
  std::int64_t schema_lengths = 10'000;
};

// invalid_argument, naming what is wrong: sizes, JSON that is none, keywords of a schema that would
// be ignored. A constraint that passes may still be refused by the compiler.
Status check_constraint(const TextConstraint& constraint, const ConstraintLimits& limits = {});

}  // namespace tandem
