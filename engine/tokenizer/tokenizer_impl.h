// The parts of a loaded tokenizer, for engine/tokenizer only.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/post_processor.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/token_decoder.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

struct Tokenizer::Impl {
  struct Entry {
    std::string text;
    bool present = false;
    bool special = false;
  };

  std::vector<Entry> tokens;                     // by id
  std::unordered_map<std::string, TokenId> ids;  // for all tokens, including added ones
  AddedTokenMatcher raw_added;                   // matched in the text before normalization
  AddedTokenMatcher normalized_added;            // matched in the normalized text
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  PostProcessor post_processor;
  TokenDecoder decoder;

  const Entry* entry(TokenId id) const {
    const auto i = static_cast<std::size_t>(id);
    return id >= 0 && i < tokens.size() && tokens[i].present ? &tokens[i] : nullptr;
  }
  // Returns the token that decode() passes to the decoder; null if it is skipped.
  const Entry* decoded_entry(TokenId id, bool skip_special) const {
    const Entry* e = entry(id);
    return e != nullptr && skip_special && e->special ? nullptr : e;
  }

  static Result<std::unique_ptr<const Impl>> parse(std::string_view text);
  static Result<std::unique_ptr<const Impl>> of(const nlohmann::json& json);

 private:
  static Result<std::unique_ptr<const Impl>> made_of(const nlohmann::json& json);
  Status fill(const nlohmann::json& json);
  Status enter(TokenId id, const std::string& text);
  Status enter_added(const std::vector<AddedToken>& added);
};

}  // namespace tandem
