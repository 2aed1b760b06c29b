// The iteration scheduler: decides which sequences compute how many tokens in the next step.
//
// Running sequences go on (first those that decode, so that a long prompt does not delay them),
// then waiting ones are admitted in the order of the line (line/waiting_line.h: by priority and
// arrival by default) while there are rows and pages. Prompts are cut into chunks and mixed with
// decode rows (Sarathi's and Orca's iteration-level batching).
//
// plan() is the whole story in order. What it uses: running_batch.h (preemption), admission.h (the
// gate and first pages), prefix_reuse.h (the prefix cache), step_draft.h (a step's limits).
//
// Sequences whose readers are behind (Sequence::stands_aside) wait even if there is room: others
// use their pages and rows until the readers have caught up.
//
// A step may be planned while the one before it still runs: the sequences' tokens then end in
// placeholders (Sequence::pending). Sequences whose last token is in flight are skipped; so are
// those whose tokens are held back (Sequence::held), which keep their pages.
//
// Plans use ids only; this class uses neither device nor model. Only the engine thread may use it.
// add() and plan() throw if memory runs out: the sequence that was to be added is destroyed, and
// after a failed plan() everything starts again (restart). Functions that remove sequences do not
// allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/batching/batch/admission.h"
#include "engine/batching/batch/admission_gate.h"
#include "engine/batching/batch/prefix_reuse.h"
#include "engine/batching/batch/running_batch.h"
#include "engine/batching/batch/step_draft.h"
#include "engine/batching/line/sequence.h"
#include "engine/batching/line/waiting_line.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/prefix_cache.h"

namespace tandem {

class ContinuousBatcher {
 public:
  // Requires that the pool has room for at least one sequence with the longest context. `prefixes`
  // null: no prefix cache.
  ContinuousBatcher(const BatchLimits& limits, PagePool& pool, PrefixCache* prefixes,
                    const LineOptions& line = {});
  ContinuousBatcher(const ContinuousBatcher&) = delete;
  ContinuousBatcher& operator=(const ContinuousBatcher&) = delete;
  // The gate outlives the batcher; set it before the first sequence is added.
  void set_gate(AdmissionGate& gate);

  void add(std::unique_ptr<Sequence> sequence);
  // Puts the line into its current order; plan() calls it if sequences have come or gone.
  void arrange() { line_.arrange(running()); }

  // Plans the next step; empty if there is nothing to do until steps in flight have ended. All
  // pages that it needs are reserved. Valid until the next call.
  const std::vector<ScheduledSequence>& plan();

  // The first waiting sequence for which the last plan() had too few pages although nothing runs:
  // pages that cannot be reclaimed have become more since it was checked, or adapters are spread
  // over more pages than they fill. Null: there is none.
  Sequence* stuck() const { return stuck_; }

  // Resets a sequence to its known tokens: its pages, whose contents may be invalid, are free at
  // once and not offered for sharing, and it waits in its old place. Call PrefixCache::drop_idle()
  // after resetting all sequences with such pages.
  void replay(Sequence* sequence);
  // Removes a sequence that runs or waits; its pages are free at once.
  std::unique_ptr<Sequence> remove(Sequence* sequence) noexcept;
  // For use when no step is in flight and the results of the last ones may be invalid: all running
  // sequences wait, in their old places, to be recomputed from their known tokens. Call
  // PrefixCache::drop_idle() afterwards.
  void restart() noexcept;
  // All sequences, running first; for cancellation and shutdown. Valid until the next call.
  const std::vector<Sequence*>& all();

  // waiting() is in the order of the line, running() in the order of arrival.
  const std::vector<std::unique_ptr<Sequence>>& waiting() const { return line_.list(); }
  const std::vector<std::unique_ptr<Sequence>>& running() const { return batch_.list(); }

  std::size_t num_running() const { return running().size(); }
  std::size_t num_waiting() const { return waiting().size(); }
  // For arrange(), counts and rates; add and remove sequences with the functions above.
  WaitingLine& line() { return line_; }
  const WaitingLine& line() const { return line_; }
  std::uint64_t num_preemptions() const { return batch_.num_preemptions(); }
  const PrefixReuse& prefixes() const { return prefixes_; }

 private:
  void set_aside();
  void offer_before_windows_pass();
  void count_paused();
  void plan_running(bool decoding);
  void admit();

  BatchLimits limits_;
  const PagePool* pool_;
  PrefixReuse prefixes_;
  Admission admission_;
  // Line, batch and list of all have capacity for all sequences, so that moving one from one to
  // another never allocates.
  WaitingLine line_;
  RunningBatch batch_;
  std::vector<Sequence*> all_;  // see all()
  StepDraft step_;
  Sequence* stuck_ = nullptr;     // see stuck()
  std::size_t ending_ = 0;        // running, with the last token in flight
  std::size_t held_ = 0;          // running, with samples held back
  bool any_aside_ = false;        // at the last plan()
  bool waits_for_pages_ = false;  // a running one skips this step
};

}  // namespace tandem
