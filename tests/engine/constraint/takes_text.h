// Checks whether a constraint's grammar accepts a text as a whole.
#pragma once

#include <xgrammar/matcher.h>

#include <memory>
#include <string>

#include "engine/constraint/compiled_constraint.h"
#include "engine/constraint/grammar_backend.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem::test {

inline Result<std::shared_ptr<const CompiledConstraint>> compiled(
    const TextConstraint& constraint) {
  static const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load("data/demo-llama").value();
  static GrammarBackend backend(*tokenizer, static_cast<std::int32_t>(tokenizer->vocab_size()),
                                {1});
  return backend.compile(constraint);
}

inline bool takes_text(const CompiledConstraint& constraint, const std::string& text) {
  xgrammar::GrammarMatcher matcher(constraint.grammar());
  return matcher.AcceptString(text) && matcher.IsCompleted();
}

}  // namespace tandem::test
