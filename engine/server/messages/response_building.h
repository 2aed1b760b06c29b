// The building blocks of OpenAI's responses.
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

// Serializes on one line; invalid UTF-8 becomes U+FFFD.
std::string dump(const nlohmann::json& value);
HttpResponse json_response(const nlohmann::json& value, int status = 200);
HttpResponse text_response(std::string text);

// Returns prefix + 24 random hexadecimal digits.
std::string random_id(std::string_view prefix);
std::int64_t unix_seconds();

// "stop", "length"; null while the generation runs. Requires a reason that is neither cancelled nor
// failed.
nlohmann::json finish_reason_json(FinishReason reason);
// Aggregates over the generations of one call: sums, and for `tandem` the earliest first token, the
// longest queueing time, and the first adapter tier.
nlohmann::json usage_json(std::span<const GenerationStats> stats);
nlohmann::json tandem_json(std::span<const GenerationStats> stats);

// The texts of the tokens of one choice, in order. Not thread-safe; `text` must outlive it.
class TokenTexts {
 public:
  // `begins_text`: the first token begins a text.
  TokenTexts(const TextCodec& text, bool begins_text) : text_(&text), begins_text_(begins_text) {}
  // Returns the bytes that the token would add as the next one; for a special token its name.
  std::string bytes_of(TokenId id) const;
  // Advances past the token.
  void pass(TokenId id) { begins_text_ = begins_text_ && is_special(id); }
  void begin() { begins_text_ = false; }

 private:
  bool is_special(TokenId id) const { return text_->token_bytes(id).empty(); }

  const TextCodec* text_;
  bool begins_text_;
};

// The log probabilities of a choice in chat, part by part: {"content": [{"token", "logprob",
// "bytes", "top_logprobs"}]}.
class ChatLogprobs {
 public:
  explicit ChatLogprobs(TokenTexts texts) : texts_(texts) {}
  nlohmann::json format(std::span<const TokenLogprob> tokens);

 private:
  nlohmann::json entry(TokenId id, float logprob) const;

  TokenTexts texts_;
};

// The log probabilities of a choice in completions, four lists: tokens, token_logprobs,
// top_logprobs, text_offset. Keeps the offset (in characters, from the start of the choice's text)
// from chunk to chunk.
class CompletionLogprobs {
 public:
  explicit CompletionLogprobs(TokenTexts texts) : texts_(texts) {}
  // Formats those of an echoed prompt, then those of the tokens after it. `first_without` is a
  // token before them without a log probability (the first of an echoed prompt). `shown` is the
  // text that contains them; a first token that is not at its beginning, such as one that the
  // tokenizer added before a prompt, has length zero.
  nlohmann::json format(std::span<const TokenLogprob> prompt, std::span<const TokenLogprob> tokens,
                        const TokenId* first_without, std::string_view shown);

 private:
  std::string token_text(TokenId id, std::size_t& characters) const;

  TokenTexts texts_;
  std::size_t offset_ = 0;
};

}  // namespace tandem
