// Checks constraints before they are compiled. They are untrusted, and some would take the compiler
// minutes, or contain parts that it ignores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "engine/service/generation.h"

namespace tandem {

struct ConstraintLimits {
  std::size_t text_bytes = std::size_t{64} << 10;
  std::int32_t nesting = 64;  // in JSON, and of groups in a pattern
  // Limits on repetitions in one pattern or grammar; compilation time grows with their cube.
  std::int32_t pattern_repeats = 100;  // *, +, ?, {...}
  std::int32_t grammar_repeats = 400;
  std::int32_t schema_nodes = 5000;  // number of values of any kind
  // The limit on the sum of a schema's different lengths (check_lengths): above it, compilation
  // takes longer than any request's limit, with any vocabulary.
  std::int64_t schema_lengths = 10'000;
};

// invalid_argument with the reason: sizes, invalid JSON, keywords of a schema that would be
// ignored. The compiler may still refuse a constraint that passes.
Status check_constraint(const TextConstraint& constraint, const ConstraintLimits& limits = {});

}  // namespace tandem
