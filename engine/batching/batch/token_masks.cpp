#include "engine/batching/batch/token_masks.h"

#include <algorithm>
#include <vector>

namespace tandem {
namespace {

// What has been generated before the token `end`: what is known, and what is held back.
std::vector<TokenId> output_before(const Sequence& sequence, std::int64_t end) {
  std::vector<TokenId> output(sequence.tokens.begin() + sequence.prompt_len(),
                              sequence.tokens.begin() + sequence.known_len());
  for (const HeldSamples& held : sequence.held) {
    if (held.next_token >= 0 && held.next_token < end) output.push_back(held.samples.back().token);
  }
  return output;
}

FoundEnding ending_of(const Result<TokenFilter::Outlook>& outlook, std::int64_t at) {
  if (!outlook) return {at, FinishReason::failed, outlook.status()};
  if (*outlook == TokenFilter::Outlook::open) return {};
  if (*outlook == TokenFilter::Outlook::ended) return {at, FinishReason::stop, {}};
  return {at, FinishReason::failed,
          invalid("no token may come next: the constraint, allowed_token_ids and bad_words leave "
                  "none")};
}

}  // namespace

void fill_masks(std::span<const PlannedEntry> entries, std::int64_t words,
                std::span<std::uint32_t> masks) {
  for (const PlannedEntry& entry : entries) {
    if (entry.mask < 0) continue;
    const std::span<std::uint32_t> mask = masks.subspan(
        static_cast<std::size_t>(entry.mask * words), static_cast<std::size_t>(words));
    Sequence& sequence = *entry.sequence;
    const bool is_void = sequence.ended || entry.replays != sequence.replays;
    if (!is_void) {
      const GenerationRequest& request = sequence.context->request;
      const std::int64_t length = entry.next_token - sequence.prompt_len();
      sequence.ending =
          ending_of(sequence.filter->next(output_before(sequence, entry.next_token),
                                          request.ignore_eos || length < request.min_tokens, mask),
                    entry.next_token);
    }
    if (is_void || sequence.ending.at >= 0) std::fill(mask.begin(), mask.end(), ~0U);
  }
}

}  // namespace tandem
