// Compiles constraints with XGrammar, for one vocabulary. Has no time limit, and never throws.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids/token_id.h"
#include "base/status.h"
#include "engine/constraint/compiled_constraint.h"
#include "engine/service/generation.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

// The data of a tokenizer and a model that compilation needs, in a form that can be sent to another
// process.
struct GrammarVocabulary {
  static GrammarVocabulary of(const Tokenizer& tokenizer, std::int32_t vocab_size,
                              std::vector<TokenId> end_tokens);

  std::string to_bytes() const;
  // invalid_argument: the bytes are not a vocabulary.
  static Result<GrammarVocabulary> from_bytes(std::string_view bytes);

  std::int32_t vocab_size = 0;
  std::vector<TokenId> ends;
  std::vector<std::string> texts;                        // by id; special tokens have empty ones
  std::vector<std::pair<TokenId, std::string>> special;  // with names; without end tokens
};

class GrammarBackend {
 public:
  // `vocab_size` is the number of columns of the model's logits; higher ids, and those without a
  // token, are never allowed. `end_tokens` end a sequence. The tokenizer is read on first use and
  // must live until then.
  GrammarBackend(const Tokenizer& tokenizer, std::int32_t vocab_size,
                 std::vector<TokenId> end_tokens);
  explicit GrammarBackend(GrammarVocabulary vocabulary);
  ~GrammarBackend();

  // The following functions are thread-safe.

  // invalid_argument: XGrammar refuses the constraint, would ignore a part of it, it allows no
  // text, or its masks would be too slow for steps.
  Result<std::shared_ptr<const CompiledConstraint>> compile(const TextConstraint& constraint);
  // Decodes the result of compile() in another process of this program, as written by
  // encode_grammar().
  Result<std::shared_ptr<const CompiledConstraint>> adopt(const TextConstraint& constraint,
                                                          std::string_view encoded);
  // Prepares the vocabulary in advance, which the first compile() or adopt() would do otherwise: 70
  // ms for 128,000 tokens.
  void prepare();
  // Returns GrammarVocabulary::to_bytes() of its vocabulary.
  std::string vocabulary_bytes();

 private:
  class Vocabularies;
  Vocabularies& vocabularies();  // requires mutex_ held

  const Tokenizer* tokenizer_ = nullptr;
  std::int32_t vocab_size_ = 0;
  std::vector<TokenId> end_tokens_;
  std::mutex mutex_;
  std::unique_ptr<Vocabularies> vocabularies_;  // guarded by mutex_
};

}  // namespace tandem
