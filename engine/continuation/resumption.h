// Restores continuations that have generated tokens before, on this engine or another, to the state
// that they would have here. Their sequences then run like preempted ones: they compute the prompt
// and the existing tokens, and continue after the last.
//
// Sampling depends on seed and position, penalties and grammars on the tokens, so no other state
// has to be transferred.
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

// The state of a continuation before its sequence is created.
struct Continuation {
  OutputText text;
  std::unique_ptr<TokenFilter> filter;  // null: any token is allowed
  bool is_over = false;                 // no sequence is created for it
};

// Checks GenerationRequest::before against the request, whose max_tokens already fits the context:
// the tokens must be in the vocabulary, and not more than allowed.
Status check_before(const GenerationRequest& request, std::int64_t vocab_size);

// Makes all n continuations of a checked request, on the caller's thread. For a request with
// `before`, also one delta for each continuation that has generated something
// (OutputDelta::is_before). invalid_argument: the request cannot have generated these tokens.
// `rules` null: any token is allowed.
struct Continuations {
  std::vector<Continuation> all;
  std::vector<OutputDelta> said;
  std::int64_t num_tokens = 0;  // number of tokens generated before
};
Result<Continuations> make_continuations(const GenerationRequest& request,
                                         const Tokenizer& tokenizer,
                                         std::span<const TokenId> eos_token_ids,
                                         const std::shared_ptr<const TokenRules>& rules,
                                         std::int64_t vocab_size);

}  // namespace tandem
