// Continuations that have generated something before, on this engine or on another: brought to the
// state in which they would be here. What their sequences compute is then what a preempted
// sequence computes: the prompt and the tokens there are, and on from the last.
//
// Draws go by seed and position, penalties and grammars by the tokens, so that nothing else has to
// be carried over.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/constraint/token_filter.h"
#include "engine/continuation/output_text.h"
#include "engine/service/generation.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

// A continuation before its sequence is made.
struct Continuation {
  OutputText text;
  std::unique_ptr<TokenFilter> filter;  // null: any token may come
  bool is_over = false;                 // it gets no sequence
};

// Checks GenerationRequest::before against the request, whose max_tokens is already what the
// context has room for: tokens in the vocabulary, no more of them than may be.
Status check_before(const GenerationRequest& request, std::int64_t vocab_size);

// All n of a request that has been checked, on the asker's thread; for a request with `before`, one
// delta for each of them that has said something (OutputDelta::is_before). invalid_argument: its
// tokens are none that it can have generated. `rules` null: any token may come.
struct Continuations {
  std::vector<Continuation> all;
  std::vector<OutputDelta> said;
  std::int64_t num_tokens = 0;  // generated before
};
Result<Continuations> make_continuations(const GenerationRequest& request,
                                         const Tokenizer& tokenizer,
                                         std::span<const TokenId> eos_token_ids,
                                         const std::shared_ptr<const TokenRules>& rules,
                                         std::int64_t vocab_size);

}  // namespace tandem
