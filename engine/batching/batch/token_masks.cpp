#include "engine/batching/batch/token_masks.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tandem {
namespace {

// The output before the token at index `end`: known tokens, then those that are held back.
std::vector<TokenId> output_before(const Sequence& sequence, std::int64_t end) {
  std::vector<TokenId> output(sequence.tokens.all().begin() + sequence.tokens.prompt_len(),
                              sequence.tokens.all().begin() + sequence.tokens.known_len());
  for (const HeldSamples& held : sequence.results.held()) {
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
                std::span<std::uint32_t> masks, MaskThread& thread) {
  std::vector<MaskTask> tasks;
  for (const PlannedEntry& entry : entries) {
    if (entry.mask < 0 || entry.is_stale() || entry.sequence->filter->is_abandoned()) continue;
    const Sequence& sequence = *entry.sequence;
    const GenerationRequest& request = sequence.context().request;
    const std::int64_t length = entry.next_token - sequence.tokens.prompt_len();
    tasks.push_back({.filter = sequence.filter,
                     .output = output_before(sequence, entry.next_token),
                     .hold_end = request.ignore_eos || length < request.min_tokens,
                     .mask = std::vector<std::uint32_t>(sequence.filter->mask_words())});
  }
  thread.compute(tasks);
  auto task = tasks.begin();
  for (const PlannedEntry& entry : entries) {
    if (entry.mask < 0) continue;
    const std::span<std::uint32_t> mask = masks.subspan(
        static_cast<std::size_t>(entry.mask * words), static_cast<std::size_t>(words));
    Sequence& sequence = *entry.sequence;
    bool is_masked = false;
    if (task != tasks.end() && task->filter == sequence.filter) {
      sequence.results.find_ending(ending_of(task->outlook, entry.next_token));
      is_masked = sequence.results.ending().at < 0;
      if (is_masked) {
        const auto rest = std::ranges::copy(task->mask, mask.begin()).out;
        std::fill(rest, mask.end(), 0U);
      }
      ++task;
    } else if (!entry.is_stale()) {  // an earlier step gave up its mask
      sequence.results.find_ending(ending_of(TokenFilter::too_costly(), entry.next_token));
    }
    if (!is_masked) std::fill(mask.begin(), mask.end(), ~0U);
  }
}

}  // namespace tandem
