#include "engine/batching/request_limits.h"

#include <algorithm>

#include "gpu/ops.h"

namespace tandem {
namespace {

Status check_sampling(const GenerationRequest& request, std::int64_t vocab_size) {
  const SamplingParams& params = request.sampling;
  if (!(params.temperature >= 0)) return invalid("temperature must be 0 or more");
  if (!(params.top_p >= 0 && params.top_p <= 1)) return invalid("top_p must be in [0, 1]");
  if (!(params.min_p >= 0 && params.min_p <= 1)) return invalid("min_p must be in [0, 1]");
  if (params.top_k < 0) return invalid("top_k must be 0 (all) or more");
  if (!(params.repetition_penalty > 0)) return invalid("repetition_penalty must be more than 0");
  if (request.num_logprobs > SampledToken::kMaxLogprobs) {
    return invalid("logprobs must be at most {}", SampledToken::kMaxLogprobs);
  }
  if (params.logit_bias.size() > kMaxLogitBias) {
    return invalid("logit_bias has {} entries, the limit is {}", params.logit_bias.size(),
                   kMaxLogitBias);
  }
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return invalid("logit_bias: token id {} is not in 0 .. {}", token, vocab_size - 1);
    }
  }
  if (static_cast<std::int64_t>(params.allowed_token_ids.size()) > vocab_size) {
    return invalid("allowed_token_ids has {} entries, the vocabulary {}",
                   params.allowed_token_ids.size(), vocab_size);
  }
  for (const TokenId token : params.allowed_token_ids) {
    if (token < 0 || token >= vocab_size) {
      return invalid("allowed_token_ids: token id {} is not in 0 .. {}", token, vocab_size - 1);
    }
  }
  if (params.bad_words.size() > kMaxBadWords) {
    return invalid(
        "bad_words has {} entries (each word counts with and without a space before it), "
        "the limit is {}",
        params.bad_words.size(), kMaxBadWords);
  }
  for (const std::vector<TokenId>& word : params.bad_words) {
    for (const TokenId token : word) {
      if (token < 0 || token >= vocab_size) {
        return invalid("bad_words: token id {} is not in 0 .. {}", token, vocab_size - 1);
      }
    }
  }
  if (request.stop_token_ids.size() > kMaxStopTokens) {
    return invalid("stop_token_ids has {} entries, the limit is {}", request.stop_token_ids.size(),
                   kMaxStopTokens);
  }
  for (const TokenId token : request.stop_token_ids) {
    if (token < 0 || token >= vocab_size) {
      return invalid("stop_token_ids: token id {} is not in 0 .. {}", token, vocab_size - 1);
    }
  }
  return {};
}

}  // namespace

Status check_request(const GenerationRequest& request, std::int64_t vocab_size,
                     std::int64_t max_model_len, std::int32_t max_queue) {
  if (request.prompt.empty()) return invalid("the prompt is empty: it needs at least one token");
  for (const TokenId id : request.prompt) {
    if (id < 0 || id >= vocab_size)
      return invalid("prompt: token id {} is not in 0 .. {}", id, vocab_size - 1);
  }
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  if (length + std::min(request.max_tokens, 1) > max_model_len) {
    return invalid("the prompt has {} tokens and the context holds {}: no room for an answer",
                   length, max_model_len);
  }
  if (request.n < 1) return invalid("n must be 1 or more");
  if (request.n > max_queue) {
    return invalid("n is {}, but only {} continuations may wait (max_queue); ask for fewer",
                   request.n, max_queue);
  }
  if (request.pooling != Pooling::none &&
      (request.n != 1 || request.max_tokens != 0 || !request.before.empty())) {
    return invalid("states of a prompt come without text: n must be 1, and max_tokens 0");
  }
  if (request.max_tokens < 0) return invalid("max_tokens must be 0 or more");
  return check_sampling(request, vocab_size);
}

}  // namespace tandem
