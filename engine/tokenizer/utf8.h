// What the tokenizer asks of a character beyond its bytes (base/utf8.h).
#pragma once

#include "base/utf8.h"

namespace tandem::utf8 {

// Unicode's White_Space property.
bool is_white_space(char32_t c);

// Letters, marks, decimal digits and connecting punctuation: what \w means to the tokenizers.
bool is_word(char32_t c);

}  // namespace tandem::utf8
