// Limits the lengths in a schema: each different one becomes an automaton with as many states, and
// each state costs a pass over the whole vocabulary.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace tandem {

// `text` is JSON with schemas anywhere in it; invalid JSON is refused elsewhere. Adds up the
// different lengths (minLength, maxLength, minItems, maxItems), each up to 250, beyond which
// XGrammar counts in another way. invalid_argument: the sum exceeds `most`.
Status check_lengths(std::string_view text, std::int64_t most);

}  // namespace tandem
