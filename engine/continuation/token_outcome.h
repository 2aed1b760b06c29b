// The effect of one generated token on its continuation: text, a stop, the end. It is the same for
// a token just sampled and for one that another engine generated before.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/continuation/output_text.h"
#include "engine/service/generation.h"

namespace tandem {

struct TokenOutcome {
  std::string text;  // text that became certain
  FinishReason finish = FinishReason::none;
  std::string stop_reason;    // like OutputDelta::stop_reason
  bool is_end_token = false;  // it ended the continuation, and is not among its returned tokens
};

// Returns the outcome of token number `output_len` (counted from 1) of a continuation, and advances
// `text` over it. `constrained`: a constraint decides where an end token may come, and it allows
// one here. Requires max_tokens != 0.
TokenOutcome take_token(const GenerationRequest& request, std::span<const TokenId> eos_token_ids,
                        bool constrained, std::int64_t output_len, TokenId token, OutputText& text);

}  // namespace tandem
