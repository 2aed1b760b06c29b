// A compiled grammar as bytes, from one process of this program to another. XGrammar's own JSON
// writes the automaton of the whole grammar once for each of its rules: 150 ms and 3 MB for a
// schema of ten properties, where these take a millisecond and 0.3 MB.
#pragma once

#include <xgrammar/compiler.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

std::string encode_grammar(const xgrammar::CompiledGrammar& grammar);

// `vocabulary` is the one that it was compiled with. invalid_argument: the bytes are no grammar, or
// one with an index that leads out of it, whoever wrote them.
Result<xgrammar::CompiledGrammar> decode_grammar(std::string_view bytes,
                                                 const xgrammar::TokenizerInfo& vocabulary);

}  // namespace tandem
