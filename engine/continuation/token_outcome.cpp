#include "engine/continuation/token_outcome.h"

#include <algorithm>

namespace tandem {
namespace {

bool holds(std::span<const TokenId> ids, TokenId token) {
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

}  // namespace

TokenOutcome take_token(const GenerationRequest& request, std::span<const TokenId> eos_token_ids,
                        bool constrained, std::int64_t output_len, TokenId token,
                        OutputText& text) {
  TokenOutcome outcome;
  const bool stops_count = output_len >= request.min_tokens;
  const bool is_stop = holds(request.stop_token_ids, token);
  const bool is_end = holds(eos_token_ids, token);
  // With a constraint, an end token ends the text even before min_tokens, because the filter then
  // allows it only if no other token is allowed.
  const bool whole = is_end && constrained;
  if (whole || (stops_count && (is_stop || (!request.ignore_eos && is_end)))) {
    outcome.text = text.flush();
    outcome.finish = FinishReason::stop;
    if (is_stop && stops_count) outcome.stop_reason = std::to_string(token);
    outcome.is_end_token = true;
    return outcome;
  }
  outcome.text = text.push(token, stops_count);
  if (const auto& stop = text.stopped_by()) {
    outcome.finish = FinishReason::stop;
    outcome.stop_reason = *stop;
  } else if (output_len >= request.max_tokens) {
    outcome.text += text.flush();
    outcome.finish = FinishReason::length;
  }
  return outcome;
}

}  // namespace tandem
