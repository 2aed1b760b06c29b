// Checks the escapes of a grammar before XGrammar 0.2.8 parses it, because it reads some escapes as
// other characters than were written, or overflows an int.
#pragma once

#include <string_view>

#include "base/status.h"

namespace tandem {

// `what` names the text, for example "the grammar". invalid_argument with the escape and a
// replacement for it.
Status check_escapes(std::string_view what, std::string_view text);

}  // namespace tandem
