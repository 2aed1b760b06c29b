// The pieces that OpenAI's responses are made of.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/http/http_message.h"
#include "engine/server/messages/text_codec.h"
#include "engine/service/generation.h"

namespace tandem {

// One line; what is not UTF-8 becomes U+FFFD.
std::string dump(const nlohmann::json& value);
HttpResponse json_response(const nlohmann::json& value, int status = 200);
HttpResponse text_response(std::string text);

// prefix + 24 random hexadecimal digits.
std::string random_id(std::string_view prefix);
std::int64_t unix_seconds();

// "stop", "length"; null while it runs. Requires neither cancelled nor failed.
nlohmann::json finish_reason_json(FinishReason reason);
// Over the generations of one call: sums, and for `tandem` the earliest first token, the longest
// queueing, and the first adapter tier.
nlohmann::json usage_json(std::span<const GenerationStats> stats);
nlohmann::json tandem_json(std::span<const GenerationStats> stats);

// The texts of tokens of one choice, in order. One thread at a time; `text` must outlive it.
class TokenTexts {
 public:
  // `begins_text`: nothing stands before the first of them.
  TokenTexts(const TextCodec& text, bool begins_text) : text_(&text), begins_text_(begins_text) {}
  // The bytes that the token adds if it comes next; a special one's name.
  std::string bytes_of(TokenId id) const;
  // It comes.
  void pass(TokenId id) { begins_text_ = begins_text_ && is_special(id); }
  void begin() { begins_text_ = false; }

 private:
  bool is_special(TokenId id) const { return text_->token_bytes(id).empty(); }

  const TextCodec* text_;
  bool begins_text_;
};

// Chat's log probabilities of a choice, part by part:
// {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}.
class ChatLogprobs {
 public:
  explicit ChatLogprobs(TokenTexts texts) : texts_(texts) {}
  nlohmann::json format(std::span<const TokenLogprob> tokens);

 private:
  nlohmann::json entry(TokenId id, float logprob) const;

  TokenTexts texts_;
};

// Completions' log probabilities, four lists: tokens, token_logprobs, top_logprobs, text_offset.
// Keeps the offset (in characters, from the start of the choice's text) from chunk to chunk.
class CompletionLogprobs {
 public:
  explicit CompletionLogprobs(TokenTexts texts) : texts_(texts) {}
  // Of an echoed prompt, then of the tokens after it. `first_without`: before them a token (an
  // echoed prompt's first) that has no log probability. `shown`: the text that they stand in; a
  // first token that does not begin it, as one that the tokenizer put before a prompt, takes no
  // room there.
  nlohmann::json format(std::span<const TokenLogprob> prompt, std::span<const TokenLogprob> tokens,
                        const TokenId* first_without, std::string_view shown);

 private:
  std::string token_text(TokenId id, std::size_t& characters) const;

  TokenTexts texts_;
  std::size_t offset_ = 0;
};

}  // namespace tandem
