// Text to token ids and back, from a tokenizer.json: byte-level BPE (GPT-2, Llama 3, Qwen) and
// SentencePiece-style BPE (Llama 2, Mistral: metaspace, byte fallback).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/token_id.h"

namespace tandem {

// Immutable after loading; all calls are thread-safe.
class Tokenizer {
 public:
  // Reads DIR/tokenizer.json. What the file asks for and this class cannot do is an error that
  // names it.
  static Result<std::unique_ptr<Tokenizer>> load(const std::filesystem::path& dir);
  static Result<std::unique_ptr<Tokenizer>> parse(std::string_view tokenizer_json);
  ~Tokenizer();

  // Special tokens written in the text become their ids, as in Hugging Face tokenizers.
  // `add_special` applies the post-processor (BOS and the like). `text` must be valid UTF-8 of at
  // most 1 GiB (an error otherwise). The file's truncation and padding are not applied.
  // `breaker`, if it is not empty, is what break_special_tokens() has put into parts of the text.
  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special,
                                      std::string_view breaker = {}) const;
  // The text with `breaker` behind the first character of each special token that is written out in
  // it. encode() with the same breaker reads it as text without any, in tokens that are not
  // special; a breaker that was there before is lost.
  std::string break_special_tokens(std::string_view text, std::string_view breaker) const;
  // Ids out of range decode to nothing. Bytes that are not UTF-8 become U+FFFD.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  std::size_t vocab_size() const;  // highest id + 1
  std::optional<TokenId> token_to_id(std::string_view token) const;
  std::string_view id_to_token(TokenId id) const;  // as in the vocabulary; empty if none
  bool is_special(TokenId id) const;
  // The exact bytes that this token adds to a text (byte-level mapping undone), or, with
  // `begins_text`, as the first of one, where decoders of SentencePiece's style drop a space; empty
  // for special tokens. What `logprobs` reports as "bytes".
  std::string token_bytes(TokenId id, bool begins_text = false) const;

 private:
  friend class StreamDecoder;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

// Turns ids into text one by one: push() returns what became certain, which is always whole UTF-8
// characters; flush() returns the rest (an unfinished character as U+FFFD) and starts afresh. All
// that was returned, concatenated, equals decode() of all ids, but for runs of byte-fallback tokens
// that are not UTF-8 as a whole: here their whole characters stay characters, because each of them
// is returned when its last byte is there. Amortised constant time per token. One thread at a time;
// `tokenizer` must outlive it.
class StreamDecoder {
 public:
  // `kept`: special tokens that are not skipped. `before`: what the text begins with, as a prompt
  // whose answer this is; nothing of it is returned, but what a decoder does at the beginning of a
  // text, as to drop a space, has been done to it.
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special, std::vector<TokenId> kept = {},
                std::span<const TokenId> before = {});
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  std::string push(TokenId id);
  std::string flush();
  // A special token that says nothing here.
  bool skips(TokenId id) const;
  // False: the next token begins the text, whose first space may be dropped.
  bool begun() const;

 private:
  struct State;
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::vector<TokenId> kept_;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
