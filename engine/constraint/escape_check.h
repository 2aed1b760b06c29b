// What a grammar escapes, judged before XGrammar 0.2.8 reads it: there are escapes that it reads as
// other characters than were written, or beyond what an int holds.
#pragma once

#include <string_view>

#include "base/status.h"

namespace tandem {

// `what`: "the grammar", say. invalid_argument, naming the escape and what to write instead.
Status check_escapes(std::string_view what, std::string_view text);

}  // namespace tandem
