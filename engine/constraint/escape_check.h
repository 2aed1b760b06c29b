// What a pattern or a grammar escapes, judged before XGrammar 0.2.8 reads it: there are escapes
// that it reads as other characters than were written, or beyond what an int holds.
#pragma once

#include <string_view>

#include "base/status.h"

namespace tandem {

// `what`: "the pattern", say; `grammar`: it is one, else a pattern. invalid_argument, naming the
// escape and what to write instead.
Status check_escapes(std::string_view what, std::string_view text, bool grammar);

}  // namespace tandem
