// What one generated token means for its continuation: text, a stop, its end. The same for a token
// that was just sampled and for one that another engine has generated before.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/continuation/output_text.h"
#include "engine/service/generation.h"

namespace tandem {

struct TokenOutcome {
  std::string text;  // that became certain
  FinishReason finish = FinishReason::none;
  std::string stop_reason;    // as OutputDelta's
  bool is_end_token = false;  // it ended the continuation, and is not told among its tokens
};

// Of the token with number `output_len` (the first is 1) of a continuation; `text` is brought to
// it. `constrained`: a constraint says where an end token may come, and it may come there. Requires
// that max_tokens is not 0.
TokenOutcome take_token(const GenerationRequest& request, std::span<const TokenId> eos_token_ids,
                        bool constrained, std::int64_t output_len, TokenId token, OutputText& text);

}  // namespace tandem
