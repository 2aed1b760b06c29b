// Bounds of what one request may ask for, so that the step's metadata has a fixed size.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/status.h"
#include "engine/service/generation.h"

namespace tandem {

inline constexpr std::int32_t kMaxLogitBias = 1024;
inline constexpr std::int32_t kMaxStopTokens = 256;
inline constexpr std::int32_t kMaxBadWords = 1024;
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

// Checks ranges and token ids of what needs no engine to be checked, for a model whose sequences
// have at most `max_model_len` tokens; the message names the field.
Status check_request(const GenerationRequest& request, std::int64_t vocab_size,
                     std::int64_t max_model_len, std::int32_t max_queue);

}  // namespace tandem
