// How many lengths a schema bounds: each one that differs is an automaton of as many states, and
// every state costs a look at the whole vocabulary.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace tandem {

// `text`: JSON with schemas anywhere in it; what is no JSON is for others to refuse. Adds up the
// lengths that differ (minLength, maxLength, minItems, maxItems), each up to 250, beyond which
// XGrammar counts in another way. invalid_argument: they are more than `most` together.
Status check_lengths(std::string_view text, std::int64_t most);

}  // namespace tandem
