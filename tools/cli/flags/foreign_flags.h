// Flags of other servers (vLLM above all), which people try here: what to say instead of "unknown".
#pragma once

#include <string_view>

namespace tandem {

// What to do about the flag ("--max-loras"), as the rest of a sentence; empty: it is not known.
std::string_view foreign_flag_hint(std::string_view flag);

}  // namespace tandem
