// Byte-pair encoding of one word: starting from its characters (or bytes), the pair of lowest rank
// is merged, leftmost first, until no neighbouring pair has a merge.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids/token_id.h"
#include "base/status.h"
#include "engine/tokenizer/id_map.h"

namespace tandem {

struct BpeOptions {
  bool byte_level = false;     // words are bytes; the vocabulary is in the byte-level alphabet
  bool byte_fallback = false;  // a character without a token becomes <0xNN> tokens
  bool fuse_unk = false;       // neighbouring unknown characters become one unknown token
  bool ignore_merges = false;  // a word that is itself a token is not split
  std::optional<TokenId> unk;  // unset: characters without a token are dropped
};

// Immutable after build(); encode() is thread-safe.
class Bpe {
 public:
  Bpe() = default;  // without any tokens
  using Vocabulary = std::unordered_map<std::string, TokenId>;
  struct Merge {
    std::string left, right;
  };

  // Requires ids in [0, 2^31). Refuses merges of tokens that are not in the vocabulary.
  static Result<Bpe> build(const Vocabulary& vocabulary, const std::vector<Merge>& merges,
                           const BpeOptions& options);

  // Appends the word's tokens to `out`. O(n log n). `word` must have fewer than 2^31 bytes and,
  // unless byte_level, be valid UTF-8.
  void encode(std::string_view word, std::vector<TokenId>& out) const;

 private:
  struct Unknown {  // an unknown token that is pending until the next known one (see add_unknown)
    bool pending = false;
  };

  void learn_characters(const Vocabulary& vocabulary);
  void learn_seams(const std::vector<Merge>& merges, const Vocabulary& vocabulary);
  void add_unknown(std::string_view bytes, Unknown& unknown, std::vector<TokenId>& symbols) const;
  void encode_characters(std::string_view word, std::vector<TokenId>& out) const;
  const std::uint64_t* merge_of(TokenId left, TokenId right) const {
    return merges_.find(static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
                        static_cast<std::uint32_t>(right));
  }
  void merge(std::vector<TokenId>& symbols, std::vector<TokenId>& out) const;
  void merge_short(std::vector<TokenId>& symbols) const;
  void merge_long(std::vector<TokenId>& symbols) const;

  BpeOptions options_;
  IdMap merges_;                            // (left, right) -> rank << 32 | result
  IdMap characters_;                        // character, or byte if byte_level -> id
  IdMap joined_;                            // pairs of neighbouring characters within some token
  bool seams_known_ = false;                // joined_ is complete, so words can be split by it
  std::array<TokenId, 256> byte_tokens_{};  // <0xNN>; -1 if there is none
  struct HashWord {
    using is_transparent = void;  // allows lookups by string_view
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>()(word);
    }
  };
  std::unordered_map<std::string, TokenId, HashWord, std::equal_to<>> whole_;  // for ignore_merges
};

}  // namespace tandem
