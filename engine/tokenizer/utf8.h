// Unicode properties of characters for the tokenizer; the encoding is in base/text/utf8.h.
#pragma once

#include "base/text/utf8.h"

namespace tandem::utf8 {

// Unicode's White_Space property.
bool is_white_space(char32_t c);

// Letters, marks, decimal digits and connecting punctuation: the meaning of \w in tokenizers.
bool is_word(char32_t c);

}  // namespace tandem::utf8
