// What is asked: prompts as texts, or as pieces of token ids that a seed makes, and how they become
// part of a request.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

// So many tokens, the same for the same seed: prompts that begin alike share their first pieces.
struct PromptPiece {
  std::uint64_t seed = 0;
  std::int32_t tokens = 0;
};

struct LoadPrompt {
  std::string text;                 // as it is, or
  std::vector<TokenId> ids;         // as they are, or
  std::vector<PromptPiece> pieces;  // made when it is sent
  std::int32_t prompt_tokens = 0;   // as planned; 0: not known before the server has counted
  std::int32_t output_tokens = 0;
};

// Makes tokens and texts of pieces. With a tokenizer: its ids but the special ones, and texts that
// are decoded from them. Without: ids from `kFirstPlainId` to below `vocabulary`, and texts of
// common English words, of which most vocabularies have each as one token.
class PromptMaker {
 public:
  // Below it vocabularies keep special tokens and single bytes.
  static constexpr std::int32_t kFirstPlainId = 300;
  // Every vocabulary of a language model has so many.
  static constexpr std::int32_t kDefaultVocabulary = 3000;

  explicit PromptMaker(std::int32_t vocabulary) : vocabulary_(vocabulary) {}
  explicit PromptMaker(std::unique_ptr<Tokenizer> tokenizer);

  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  std::vector<TokenId> ids_of(const LoadPrompt& prompt) const;  // of a prompt of ids or pieces
  std::string text_of(const LoadPrompt& prompt) const;

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<TokenId> plain_;  // of the tokenizer: ids that are neither special nor empty
  std::int32_t vocabulary_ = 0;
};

}  // namespace tandem
