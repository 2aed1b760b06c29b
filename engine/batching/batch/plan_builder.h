// Converts the batcher's schedule to the step that an executor computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/adapters/device/device_tier.h"
#include "engine/batching/batch/continuous_batcher.h"
#include "engine/batching/line/sequence.h"
#include "engine/executor/step_plan.h"

namespace tandem {

// The data that the engine keeps for an entry of a plan while the step is in flight.
struct PlannedEntry {
  Sequence* sequence = nullptr;
  StepPlan::Range samples;       // log probabilities of the prompt, then the next token if any
  std::int64_t next_token = -1;  // its index in Sequence::tokens; -1: none is sampled
  std::uint32_t replays = 0;     // Sequence::replays then
  SlotId slot;                   // of its adapter
  AdapterProof proof;            // of the copy in the slot, which the step uses
  std::int32_t mask = -1;        // of the next token; -1: none

  // True if its results no longer count.
  bool is_stale() const { return sequence->is_stale(replays); }
};

// Fills in both outputs, in the order of `scheduled`, and lets the sequences enter the step: until
// it has ended, the tokens that it samples are unknown (SequenceTokens). The adapters must be on
// the device or loading.
void build_plan(std::span<const ScheduledSequence> scheduled, const DeviceTier& tier,
                StepPlan& plan, std::vector<PlannedEntry>& entries);

}  // namespace tandem
