// The step that is being planned: its sequences so far, and what is left of a step's limits.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/batching/line/sequence.h"
#include "engine/memory/page_pool.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

struct BatchLimits {
  std::int32_t max_num_seqs = 0;
  std::int32_t max_num_batched_tokens = 0;
  std::int32_t max_prefill_chunk = 0;  // most prompt tokens of a sequence in a step; 0: no limit
  std::int32_t max_logit_rows = 0;     // rows with logits in a step; >= max_num_seqs
  // Tokens in a step of the sampled sequences with penalties; at least the longest context.
  std::int64_t max_history = std::int64_t{1} << 20;
  // Page ids of a group of layers in a step, over all its sequences: may exceed the number of
  // pages, as sequences share them. At least those of one sequence with the longest context.
  std::int64_t max_page_ids = std::int64_t{1} << 30;
  RotaryLengths rotary = {};  // of the model
};

struct ScheduledSequence {
  Sequence* sequence;
  std::int32_t num_tokens;  // its next tokens: tokens[computed .. computed + num_tokens)
};

class StepDraft {
 public:
  // The pool outlives it. add() does not allocate for up to max_num_seqs sequences.
  StepDraft(const BatchLimits& limits, const PagePool& pool);

  // Starts another step.
  void clear();
  // The number of the next tokens of a sequence that there is room for in this step; 0: none.
  std::int32_t rows_for(const Sequence& sequence) const;
  // Adds that many of its tokens. Requires that they have pages.
  void add(Sequence& sequence, std::int32_t rows);
  // Takes a sequence out again, if it is in.
  void drop(const Sequence& sequence);

  bool has_rows_left() const { return left_.rows > 0; }
  const std::vector<ScheduledSequence>& entries() const { return entries_; }

 private:
  // Takes what these rows need from what is left (`times` 1), or gives it back (-1).
  void charge(const Sequence& sequence, std::int32_t rows, int times);

  BatchLimits limits_;
  const PagePool* pool_;
  std::vector<ScheduledSequence> entries_;
  struct {
    std::int64_t rows = 0;
    std::int64_t logit_rows = 0;
    std::int64_t page_ids = 0;
    std::int64_t history = 0;
  } left_;  // of the limits of the same names
};

}  // namespace tandem
