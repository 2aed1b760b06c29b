// Compiles constraints by XGrammar, for one vocabulary. Takes as long as it takes, and never
// throws.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/token_id.h"
#include "engine/constraint/compiled_constraint.h"
#include "engine/service/generation.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

// What compiling needs of a tokenizer and a model: in a form that another process can be told.
struct GrammarVocabulary {
  static GrammarVocabulary of(const Tokenizer& tokenizer, std::int32_t vocab_size,
                              std::vector<TokenId> end_tokens);

  std::string to_bytes() const;
  // invalid_argument: they are none.
  static Result<GrammarVocabulary> from_bytes(std::string_view bytes);

  std::int32_t vocab_size = 0;
  std::vector<TokenId> ends;
  std::vector<std::string> texts;                        // by id; of special tokens nothing
  std::vector<std::pair<TokenId, std::string>> special;  // but for those that end, with their names
};

class GrammarBackend {
 public:
  // `vocab_size`: columns of the model's logits; ids from it on, and those that the tokenizer does
  // not know, are never allowed. `end_tokens` end a sequence. The tokenizer is read when it is
  // first needed, and outlives that.
  GrammarBackend(const Tokenizer& tokenizer, std::int32_t vocab_size,
                 std::vector<TokenId> end_tokens);
  explicit GrammarBackend(GrammarVocabulary vocabulary);
  ~GrammarBackend();

  // Thread-safe, all of them.

  // invalid_argument: XGrammar refuses it, would leave a part of it out, allows no text, or would
  // hold steps up.
  Result<std::shared_ptr<const CompiledConstraint>> compile(const TextConstraint& constraint);
  // What compile() has made in another process of this program, as encode_grammar() wrote it.
  Result<std::shared_ptr<const CompiledConstraint>> adopt(const TextConstraint& constraint,
                                                          std::string_view encoded);
  // Does now what the first of those would do before anything else: it takes 70 ms for a vocabulary
  // of 128,000 tokens.
  void prepare();
  // GrammarVocabulary::to_bytes() of its vocabulary.
  std::string vocabulary_bytes();

 private:
  class Vocabularies;
  Vocabularies& vocabularies();  // needs mutex_

  const Tokenizer* tokenizer_ = nullptr;
  std::int32_t vocab_size_ = 0;
  std::vector<TokenId> end_tokens_;
  std::mutex mutex_;
  std::unique_ptr<Vocabularies> vocabularies_;  // guarded by mutex_
};

}  // namespace tandem
