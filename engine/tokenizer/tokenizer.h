// Conversion between text and token ids, by a tokenizer.json: byte-level BPE (GPT-2, Llama 3, Qwen)
// and SentencePiece-style BPE (Llama 2, Mistral: metaspace, byte fallback).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids/token_id.h"
#include "base/status.h"

namespace tandem {

// Immutable after loading; all calls are thread-safe.
class Tokenizer {
 public:
  // Reads DIR/tokenizer.json. An error names what the file requires and this class does not
  // support.
  static Result<std::unique_ptr<Tokenizer>> load(const std::filesystem::path& dir);
  static Result<std::unique_ptr<Tokenizer>> parse(std::string_view tokenizer_json);
  // The JSON is that of a tokenizer.json: its texts are UTF-8, and it nests no deeper than parse()
  // allows.
  static Result<std::unique_ptr<Tokenizer>> of(const nlohmann::json& tokenizer_json);
  ~Tokenizer();

  // Special tokens written in the text become their ids, as in Hugging Face tokenizers.
  // `add_special` applies the post-processor (BOS and the like). `text` must be valid UTF-8 of at
  // most 1 GiB; otherwise an error is returned. The file's truncation and padding are not applied.
  // `breaker`, if not empty, is the text that break_special_tokens() has inserted.
  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special,
                                      std::string_view breaker = {}) const;
  // Encodes both texts and joins them by the post-processor's rule for pairs, special tokens
  // included.
  Result<std::vector<TokenId>> encode_pair(std::string_view first, std::string_view second) const;
  // Inserts `breaker` after the first character of each special token that is written out in the
  // text. encode() with the same breaker then encodes the original text without special tokens.
  // Breakers that were in the text before are lost.
  std::string break_special_tokens(std::string_view text, std::string_view breaker) const;
  // Ids out of range are skipped. Bytes that are not UTF-8 become U+FFFD.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  std::size_t vocab_size() const;  // highest id + 1
  std::optional<TokenId> token_to_id(std::string_view token) const;
  std::string_view id_to_token(TokenId id) const;  // as in the vocabulary; empty if unknown
  bool is_special(TokenId id) const;
  // Returns the exact bytes that this token adds to a text (with the byte-level mapping undone),
  // or, with `begins_text`, as its first token, at which SentencePiece-style decoders drop a space.
  // Empty for special tokens. `logprobs` reports these as "bytes".
  std::string token_bytes(TokenId id, bool begins_text = false) const;

 private:
  friend class StreamDecoder;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

// Converts ids to text one by one: push() returns the text that became certain, always whole UTF-8
// characters; flush() returns the rest (an unfinished character as U+FFFD) and resets the decoder.
// The concatenated results equal decode() of all ids, except for runs of byte-fallback tokens that
// are not UTF-8 as a whole: their whole characters are kept here, because each is returned with its
// last byte. Amortised constant time per token. Not thread-safe; `tokenizer` must outlive it.
class StreamDecoder {
 public:
  // `kept`: special tokens that are not skipped. `before`: the tokens at the beginning of the text,
  // such as the prompt of an answer; their text is not returned, but they affect decoder steps at
  // the beginning of a text, such as dropping a space.
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special, std::vector<TokenId> kept = {},
                std::span<const TokenId> before = {});
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  std::string push(TokenId id);
  std::string flush();
  // Whether the token is special and skipped here.
  bool skips(TokenId id) const;
  // False if the next token begins the text, so that its first space may be dropped.
  bool begun() const;

 private:
  struct State;
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::vector<TokenId> kept_;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
