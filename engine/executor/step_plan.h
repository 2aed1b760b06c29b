// One step of the model as ids and numbers: what an executor is asked to compute, and what came of
// it. Nothing in a plan points to anything, so that it can be written down, sent and run again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/slot_id.h"
#include "base/status.h"
#include "base/token_id.h"
#include "engine/memory/free_pages.h"
#include "engine/model/step/step_batch.h"
#include "gpu/ops.h"

namespace tandem {

// Entries lie one after another, and so do their parts of the lists below: an entry's tokens follow
// those of the entry before it.
struct StepPlan {
  struct Range {
    std::int32_t first = 0;
    std::int32_t count = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };

  // One sequence's part of the step: its tokens at positions start, start + 1, ...
  struct Entry {
    std::uint64_t id = 0;  // whatever the caller knows the sequence by
    std::int64_t start = 0;
    Range tokens;         // of `tokens`; one or more
    Range pages;          // of `pages`: its block table up to its last token, or beyond it
    Range samples;        // of `samples`; none while a prompt goes on
    AdapterSlot adapter;  // no slot: the base model
  };

  // A token to be drawn, or scored where how.forced_token is set.
  struct Sample {
    std::int32_t row = 0;  // of its entry: logits after the entry's token number `row`
    // Its history and biases are ranges of the lists below.
    SampleRow how;
  };

  std::vector<Entry> entries;
  // Ids. A negative one stands for what the step before this one samples: -1 - (its number among
  // that plan's samples). The device puts the token there.
  std::vector<TokenId> tokens;
  std::vector<PageId> pages;
  std::vector<Sample> samples;
  // Prompt, then output, of entries with penalties; negative as above.
  std::vector<TokenId> history;
  std::vector<TokenBias> biases;
  // Masks that its samples name (SampleRow::mask). What they hold depends on what the step before
  // samples: they are given when that is known, while this step is computed already.
  std::int32_t num_masks = 0;

  void clear();
};

// Valid until the next step is enqueued.
struct StepResult {
  Status status;
  std::span<const std::uint64_t> entries;  // the plan's, by their ids
  std::span<const SampledToken> samples;   // as the plan numbers them; none on failure
  double seconds = 0;                      // that the device was at it, as far as the host can tell
  double gap_seconds = 0;  // that the device may have waited for it with nothing to do
  // CPU workers left rows of the adapter in this slot without an answer: what entries with that
  // slot computed is void.
  std::vector<SlotId> voided;
  struct Served {
    SlotId slot;
    std::int32_t cpu_layers = 0;  // of which workers computed anything
    // From the first of these layers to the end of the last, where tracing is on.
    TimePoint workers_began{}, workers_ended{};
  };
  std::vector<Served> served;  // adapters with rows handed over, or that might have been
};

}  // namespace tandem
