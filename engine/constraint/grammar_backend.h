// Compiles constraints by XGrammar, for one vocabulary. Takes as long as it takes, and never
// throws.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "base/token_id.h"
#include "engine/constraint/compiled_constraint.h"
#include "engine/service/generation.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

class GrammarBackend {
 public:
  // `vocab_size`: columns of the model's logits; ids from it on, and those that the tokenizer does
  // not know, are never allowed. `end_tokens` end a sequence. The tokenizer is read at the first
  // constraint, and outlives that.
  GrammarBackend(const Tokenizer& tokenizer, std::int32_t vocab_size,
                 std::vector<TokenId> end_tokens);
  ~GrammarBackend();

  // Thread-safe. invalid_argument: XGrammar refuses it, would leave a part of it out, allows no
  // text, or would hold steps up.
  Result<std::shared_ptr<const CompiledConstraint>> compile(const TextConstraint& constraint);

 private:
  struct Vocabularies;

  const Tokenizer* tokenizer_;
  const std::int32_t vocab_size_;
  const std::vector<TokenId> end_tokens_;
  std::mutex mutex_;
  std::unique_ptr<Vocabularies> vocabularies_;  // guarded by mutex_
};

}  // namespace tandem
