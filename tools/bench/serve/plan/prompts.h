// Prompts, as texts or as pieces of token ids made from a seed, and their conversion for a
// request.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

// So many tokens made from the seed. Prompts with a common beginning share their first pieces.
struct PromptPiece {
  std::uint64_t seed = 0;
  std::int32_t tokens = 0;
};

struct LoadPrompt {
  std::string text;                 // used unchanged, or
  std::vector<TokenId> ids;         // used unchanged, or
  std::vector<PromptPiece> pieces;  // made into ids when the request is sent
  std::int32_t prompt_tokens = 0;   // as planned; 0: unknown until the server has counted
  std::int32_t output_tokens = 0;
};

// Makes tokens and texts of pieces. With a tokenizer it uses all ids but the special ones, and
// decodes them to texts. Without, ids are from `kFirstPlainId` to below `vocabulary`, and texts are
// common English words, most of which are single tokens in most vocabularies.
class PromptMaker {
 public:
  // Smaller ids are often special tokens or single bytes.
  static constexpr std::int32_t kFirstPlainId = 300;
  // Every language model's vocabulary has at least this size.
  static constexpr std::int32_t kDefaultVocabulary = 3000;

  explicit PromptMaker(std::int32_t vocabulary) : vocabulary_(vocabulary) {}
  explicit PromptMaker(std::unique_ptr<Tokenizer> tokenizer);

  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  std::vector<TokenId> ids_of(const LoadPrompt& prompt) const;  // requires ids or pieces
  std::string text_of(const LoadPrompt& prompt) const;

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<TokenId> plain_;  // the tokenizer's ids that are neither special nor empty
  std::int32_t vocabulary_ = 0;
};

}  // namespace tandem
