#include "engine/batching/batch/step_draft.h"

#include <algorithm>
#include <cstddef>

namespace tandem {
namespace {

// The rows of this chunk that need logits: all prompt rows if log probabilities are wanted, else
// only the last row of the last chunk.
std::int64_t logit_rows_of(const Sequence& sequence, std::int64_t rows) {
  if (sequence.prompt_logprobs.are_wanted()) return rows;
  return rows == sequence.left_to_compute() ? 1 : 0;
}

// The number of tokens that its sampling uses after this chunk.
std::int64_t history_of(const Sequence& sequence, std::int64_t rows) {
  if (rows < sequence.left_to_compute()) return 0;
  return sequence.context().request.sampling.has_penalty() ? sequence.tokens.size() : 0;
}

}  // namespace

StepDraft::StepDraft(const BatchLimits& limits, const PagePool& pool)
    : limits_(limits), pool_(&pool) {
  entries_.reserve(static_cast<std::size_t>(limits.max_num_seqs));
  clear();
}

void StepDraft::clear() {
  entries_.clear();
  left_ = {.rows = limits_.max_num_batched_tokens,
           .logit_rows = limits_.max_logit_rows,
           .page_ids = limits_.max_page_ids,
           .history = limits_.max_history};
}

std::int32_t StepDraft::rows_for(const Sequence& sequence) const {
  std::int64_t rows = std::min(sequence.left_to_compute(), left_.rows);
  const bool prefill = sequence.left_to_compute() > 1;
  if (prefill && limits_.max_prefill_chunk > 0) {
    rows = std::min<std::int64_t>(rows, limits_.max_prefill_chunk);
  }
  // Tokens before the adapter acts do not wait for one that is still loading.
  const std::int64_t unadapted = sequence.unadapted_left();
  if (unadapted > 0 && sequence.context().adapter->residency() != Residency::resident) {
    rows = std::min(rows, unadapted);
  }
  if (sequence.prompt_logprobs.are_wanted()) {
    // All of these rows need logits, and the decoding sequences have theirs already.
    rows = std::min(rows, left_.logit_rows);
  } else if (rows == sequence.left_to_compute() && left_.logit_rows == 0) {
    rows -= 1;  // all but the last row, which would need logits
  }
  if (history_of(sequence, rows) > left_.history) rows -= 1;
  if (pool_->shape().table_pages(sequence.computed() + rows) > left_.page_ids) return 0;
  return static_cast<std::int32_t>(rows);
}

void StepDraft::add(Sequence& sequence, std::int32_t rows) {
  entries_.push_back({&sequence, rows});
  charge(sequence, rows, 1);
}

void StepDraft::drop(const Sequence& sequence) {
  const auto at = std::ranges::find(entries_, &sequence, &ScheduledSequence::sequence);
  if (at == entries_.end()) return;
  charge(sequence, at->num_tokens, -1);
  entries_.erase(at);
}

void StepDraft::charge(const Sequence& sequence, std::int32_t rows, int times) {
  left_.rows -= times * rows;
  left_.logit_rows -= times * logit_rows_of(sequence, rows);
  left_.page_ids -= times * pool_->shape().table_pages(sequence.computed() + rows);
  left_.history -= times * history_of(sequence, rows);
}

}  // namespace tandem
