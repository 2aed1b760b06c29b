// The requirements of a sequence in the batch: its adapter, on which the gate decides, and pages.
//
// The gate comes before the pages, so that the sequence's own adapter is not reclaimed for them.
#pragma once

#include <cstdint>

#include "engine/batching/batch/admission_gate.h"
#include "engine/batching/batch/prefix_reuse.h"
#include "engine/batching/batch/step_draft.h"
#include "engine/batching/line/sequence.h"
#include "engine/memory/page_pool.h"

namespace tandem {

class Admission {
 public:
  // The arguments outlive it.
  Admission(const PagePool& pool, PrefixReuse& prefixes, RotaryLengths rotary)
      : pool_(&pool), prefixes_(&prefixes), rotary_(rotary) {}
  // The gate outlives it.
  void set_gate(AdmissionGate& gate) { gate_ = &gate; }

  bool has_gate() const { return gate_ != nullptr; }
  // True if something in flight will let sequences in, or free pages.
  bool is_waiting() const { return gate_ != nullptr && gate_->is_waiting(); }
  void plan_begins() {
    if (gate_ != nullptr) gate_->plan_begins();
  }

  // True if the gate lets a waiting sequence in; take_pages() has to follow.
  bool passes_gate(Sequence& sequence) { return gate_ == nullptr || gate_->enter(sequence); }
  // Reserves pages for the first rows that the step has room for, after its cached prefix. Returns
  // their number. If there is no room, or memory runs out, the sequence has left the gate again:
  // returns 0, or throws. `alone`: no sequence runs.
  std::int32_t take_pages(Sequence& sequence, const StepDraft& step, bool alone);
  // True if the keys of a sequence of the batch do not suit its length any more.
  bool is_outgrown(const Sequence& sequence) const {
    return rotary_.outgrown(sequence.pages.rotary_length(), sequence.tokens.size());
  }
  // Takes back all that a sequence of the batch has got.
  void leave(Sequence& sequence);

 private:
  std::int32_t reserve(Sequence& sequence, const StepDraft& step, bool alone) const;
  void give_up(Sequence& sequence);

  const PagePool* pool_;
  PrefixReuse* prefixes_;
  RotaryLengths rotary_;
  AdmissionGate* gate_ = nullptr;  // null: all may run
};

}  // namespace tandem
