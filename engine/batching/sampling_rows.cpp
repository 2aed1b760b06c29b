#include "engine/batching/sampling_rows.h"

#include <algorithm>
#include <limits>

namespace tandem {
namespace {

// Continuation 0 draws from the request's own seed, so that n = 1 and the first of n agree; the
// others from seeds that a 64-bit mixing step sends far apart (the finaliser of SplitMix64).
std::uint64_t seed_of(const Sequence& sequence) {
  if (sequence.index == 0) return sequence.context->seed;
  std::uint64_t z =
      sequence.context->seed + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(sequence.index);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

SampleRow row_of(const Sequence& sequence) {
  const SamplingParams& params = sequence.context->request.sampling;
  SampleRow row;
  row.temperature = static_cast<float>(params.temperature);
  row.top_p = static_cast<float>(params.top_p);
  row.min_p = static_cast<float>(params.min_p);
  row.top_k = params.top_k;
  row.repetition_penalty = static_cast<float>(params.repetition_penalty);
  row.presence_penalty = static_cast<float>(params.presence_penalty);
  row.frequency_penalty = static_cast<float>(params.frequency_penalty);
  row.num_logprobs = sequence.context->request.num_logprobs;
  row.prompt_len = static_cast<std::int32_t>(sequence.prompt_len());
  row.seed = seed_of(sequence);
  row.position = sequence.tokens.size();
  return row;
}

}  // namespace

Status check_sampling(const GenerationRequest& request, std::int64_t vocab_size) {
  const SamplingParams& params = request.sampling;
  if (!(params.temperature >= 0)) return invalid("temperature must be 0 or more");
  if (!(params.top_p > 0 && params.top_p <= 1)) return invalid("top_p must be in (0, 1]");
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

std::int64_t first_prompt_logprob_row(const Sequence& sequence, std::int64_t first) {
  // Row p tells the log probability of prompt token p + 1; after a preemption some are known or
  // asked for.
  return std::max(first, sequence.prompt_logprobs_asked);
}

ChunkSamples add_sampling_rows(const Sequence& sequence, std::int32_t num_tokens,
                               std::int32_t first_row, std::span<const TokenId> eos_token_ids,
                               StepBatch& batch) {
  const GenerationRequest& request = sequence.context->request;
  const std::int64_t end = sequence.computed + num_tokens;
  ChunkSamples result;
  result.first = batch.num_samples();
  if (sequence.wants_prompt_logprobs()) {
    const std::int64_t last = std::min(end, sequence.prompt_len() - 1);
    for (std::int64_t p = first_prompt_logprob_row(sequence, sequence.computed); p < last; ++p) {
      SampleRow row;
      row.forced_token = sequence.tokens[static_cast<std::size_t>(p + 1)];
      row.num_logprobs = std::max(request.num_logprobs, 0);
      batch.add_sample(first_row + static_cast<std::int32_t>(p - sequence.computed), row, {}, {});
    }
  }
  result.prompt_logprobs = batch.num_samples() - result.first;
  if (end < static_cast<std::int64_t>(sequence.tokens.size())) return result;

  std::vector<TokenBias> biases;
  for (const auto& [token, bias] : request.sampling.logit_bias) biases.push_back({token, bias});
  if (sequence.output_len() < request.min_tokens) {
    constexpr float kBan = -std::numeric_limits<float>::infinity();
    for (const TokenId token : request.stop_token_ids) biases.push_back({token, kBan});
    if (!request.ignore_eos) {
      for (const TokenId token : eos_token_ids) biases.push_back({token, kBan});
    }
  }
  std::span<const TokenId> history;
  if (request.sampling.has_penalty()) history = sequence.tokens;
  batch.add_sample(first_row + num_tokens - 1, row_of(sequence), history, biases);
  result.next_token = true;
  return result;
}

bool is_end_token(TokenId token, const GenerationRequest& request,
                  std::span<const TokenId> eos_token_ids) {
  const auto holds = [token](std::span<const TokenId> ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  return holds(request.stop_token_ids) || (!request.ignore_eos && holds(eos_token_ids));
}

TokenLogprob to_token_logprob(const SampledToken& sampled) {
  TokenLogprob result;
  result.token = sampled.token;
  result.logprob = sampled.logprob;
  for (std::int32_t i = 0; i < sampled.num_top; ++i) {
    result.top.emplace_back(sampled.top_tokens[i], sampled.top_logprobs[i]);
  }
  return result;
}

}  // namespace tandem
