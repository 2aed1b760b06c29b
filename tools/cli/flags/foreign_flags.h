// Hints for flags of other servers, above all vLLM, that users of those may try here.
#pragma once

#include <string_view>

namespace tandem {

// Returns a hint for the flag ("--max-loras") as the rest of a sentence; empty: no hint is known.
std::string_view foreign_flag_hint(std::string_view flag);

}  // namespace tandem
