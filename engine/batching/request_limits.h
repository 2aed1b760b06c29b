// The limits of one request, so that the step's metadata has a fixed size.
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
// An adapter may have one end token of its own.
inline constexpr std::int32_t kMaxBiasesPerSequence =
    kMaxLogitBias + kMaxStopTokens + kMaxEosTokens + std::int32_t{kMostAdapterParts};

// Rows with logits in a step: one for each sequence, and some for prompt log probabilities, which
// are computed in chunks of at least this many.
constexpr std::int32_t max_logit_rows(std::int32_t max_num_seqs) {
  return max_num_seqs + 32;
}

// Tokens of prompts and outputs that the penalties of one step may use, at least those of one
// sequence.
constexpr std::int64_t max_history(std::int64_t max_model_len) {
  return std::max(max_model_len, std::int64_t{1} << 20);
}

// Checks ranges and token ids of the fields that can be checked without an engine, for a model
// whose sequences have at most `max_model_len` tokens; the error names the field.
Status check_request(const GenerationRequest& request, std::int64_t vocab_size,
                     std::int64_t max_model_len, std::int32_t max_queue);

}  // namespace tandem
