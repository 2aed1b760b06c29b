// One step of the model as ids and numbers: the input of an executor, and its result. A plan has no
// pointers, so that it can be written to a file, sent and run again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids/slot_id.h"
#include "base/ids/token_id.h"
#include "base/status.h"
#include "engine/memory/free_pages.h"
#include "engine/model/step/step_batch.h"
#include "gpu/ops.h"

namespace tandem {

// The entries' parts of the lists below lie one after another: an entry's tokens follow those of
// the entry before it.
struct StepPlan {
  struct Range {
    std::int32_t first = 0;
    std::int32_t count = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };

  // The part of one sequence in the step: its tokens at positions start, start + 1, ...
  struct Entry {
    std::uint64_t id = 0;  // chosen by the caller
    std::int64_t start = 0;
    Range tokens;  // in `tokens`; at least one
    // In `pages`: the block table up to the last token, or beyond it; of each group of layers
    // (KvGroups) one after another, of equal lengths.
    Range pages;
    Range samples;                   // in `samples`; empty until the last piece of a prompt
    AdapterSlot adapter;             // no slot: the base model
    std::int32_t first_adapted = 0;  // of its tokens: those before it are computed without adapter
    std::int64_t rotary_length = 0;  // as in StepBatch::add_sequence
  };

  // A token to be drawn, or to be scored if how.forced_token is set.
  struct Sample {
    std::int32_t row = 0;  // of its entry: takes the logits after the entry's token `row`
    // The history and biases are ranges of the lists below.
    SampleRow how;
    bool wants_state = false;  // StepResult::states has its row; recordings do not keep it
  };

  std::vector<Entry> entries;
  // Token ids. A negative one stands for a token that the step before samples: -1 - (its number in
  // that plan's samples). The device puts the token in its place.
  std::vector<TokenId> tokens;
  std::vector<PageId> pages;
  std::vector<Sample> samples;
  // Prompt, then output, of entries with penalties; negative as above.
  std::vector<TokenId> history;
  std::vector<TokenBias> biases;
  // The number of masks that the samples use (SampleRow::mask). Their content depends on the
  // samples of the step before, so they are given when those are known, while this step is already
  // running.
  std::int32_t num_masks = 0;

  void clear();
};

// Valid until the next step is enqueued.
struct StepResult {
  Status status;
  std::span<const std::uint64_t> entries;  // ids of the plan's entries
  std::span<const SampledToken> samples;   // numbered as in the plan; empty on failure
  // [samples, hidden] in host memory, in the model's dtype: the rows after the model's last norm.
  // Without dimensions if no sample of the plan wants one.
  TensorView states;
  double seconds = 0;      // the device's time for the step, as seen by the host
  double gap_seconds = 0;  // upper bound of the device's idle time before the step
  // Slots of adapters whose CPU workers did not answer: the results of entries with these slots are
  // invalid.
  std::vector<SlotId> timed_out;
  struct Served {
    SlotId slot;
    std::int32_t cpu_layers = 0;  // layers that workers computed in part or in full
    // From the first of these layers to the end of the last, if tracing is on.
    TimePoint workers_began{}, workers_ended{};
  };
  std::vector<Served> served;  // adapters of the step's other groups
};

}  // namespace tandem
