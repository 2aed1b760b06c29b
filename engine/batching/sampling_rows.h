// From a sequence's request to the rows that the device samples, and back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/batching/sequence.h"
#include "engine/model/step_batch.h"

namespace tandem {

// Bounds of what one request may ask for, so that the step's metadata has a fixed size.
inline constexpr std::int32_t kMaxLogitBias = 1024;
inline constexpr std::int32_t kMaxStopTokens = 256;
inline constexpr std::int32_t kMaxEosTokens = 64;
inline constexpr std::int32_t kMaxBiasesPerSequence =
    kMaxLogitBias + kMaxStopTokens + kMaxEosTokens;

// Rows that may get logits in a step: one for each sequence and some for prompt log probabilities,
// which are worked off in chunks of at least this many.
constexpr std::int32_t max_logit_rows(std::int32_t max_num_seqs) {
  return max_num_seqs + 32;
}

// Tokens of prompts and outputs that the penalties of one step may look at, at least one
// sequence's.
constexpr std::int64_t max_history(std::int64_t max_model_len) {
  return std::max(max_model_len, std::int64_t{1} << 20);
}

// Checks ranges and token ids; the message names the field.
Status check_sampling(const GenerationRequest& request, std::int64_t vocab_size);

// The first row at or after `first` (as a position) whose successor in the prompt still needs its
// log probability.
std::int64_t first_prompt_logprob_row(const Sequence& sequence, std::int64_t first);

// Which samples of a step belong to one sequence's chunk.
struct ChunkSamples {
  std::int32_t first = 0;
  std::int32_t prompt_logprobs = 0;
  bool next_token = false;  // the sample after them
};

// Adds the samples of a chunk of `num_tokens` rows that begins at `first_row` of the batch: prompt
// log probabilities in order of position, then the next token if the chunk reaches the end.
ChunkSamples add_sampling_rows(const Sequence& sequence, std::int32_t num_tokens,
                               std::int32_t first_row, std::span<const TokenId> eos_token_ids,
                               StepBatch& batch);

bool is_end_token(TokenId token, const GenerationRequest& request,
                  std::span<const TokenId> eos_token_ids);

TokenLogprob to_token_logprob(const SampledToken& sampled);

}  // namespace tandem
