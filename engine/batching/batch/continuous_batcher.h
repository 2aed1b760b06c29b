// The iteration scheduler: decides which sequences compute how many tokens in the next step.
//
// Running sequences go on (first those that decode, so that a long prompt does not delay them),
// then waiting ones are admitted in the order of the line (line/waiting_line.h: by priority and
// arrival by default) while there are rows and pages. Prompts are cut into chunks and mixed with
// decode rows (Sarathi's and Orca's iteration-level batching). When there are no free pages, and
// the pool has nothing idle to reclaim, the newest running sequence is preempted: its pages are
// freed, and it waits in its old place to be recomputed.
//
// An admitted sequence starts after its longest prefix in the prefix cache, which may include its
// own pages from before a preemption. Every sequence offers its whole pages as soon as their step
// is planned, so that two sequences admitted in one step share pages already.
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

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/batching/line/sequence.h"
#include "engine/batching/line/waiting_line.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/prefix_cache.h"

namespace tandem {

struct BatchLimits {
  std::int32_t max_num_seqs = 0;
  std::int32_t max_num_batched_tokens = 0;
  std::int32_t max_prefill_chunk = 0;  // most prompt tokens of a sequence in a step; 0: no limit
  std::int32_t max_logit_rows = 0;     // rows with logits in a step; >= max_num_seqs
  // Tokens in a step of the sampled sequences with penalties; at least the longest context.
  std::int64_t max_history = std::int64_t{1} << 20;
  // Page ids in a step, over all its sequences: may exceed the number of pages, as sequences share
  // them. At least those of one sequence with the longest context.
  std::int64_t max_page_ids = std::int64_t{1} << 30;
};

struct ScheduledSequence {
  Sequence* sequence;
  std::int32_t num_tokens;  // its next tokens: tokens[computed .. computed + num_tokens)
};

// The requirement of a sequence in addition to pages: its adapter.
class AdmissionGate {
 public:
  AdmissionGate() = default;
  AdmissionGate(const AdmissionGate&) = delete;
  AdmissionGate& operator=(const AdmissionGate&) = delete;
  virtual ~AdmissionGate() = default;

  // Called before a step is planned; calls of enter() follow.
  virtual void plan_begins() {}
  // Returns true if the sequence may run, until leave(); false if not now, and later ones go on.
  virtual bool enter(const Sequence& sequence) = 0;
  virtual void leave(const Sequence& sequence) = 0;
  // Called after enter() if the sequence got pages and rows; otherwise leave() follows at once.
  virtual void begins(const Sequence& /*sequence*/) {}
  // True if its results may turn out to be invalid, so that they must not be shared yet.
  virtual bool is_in_doubt(const Sequence& /*sequence*/) const { return false; }
  // True if something in flight will admit sequences, or free pages.
  virtual bool is_waiting() const = 0;
};

class ContinuousBatcher {
 public:
  // Requires that the pool has room for at least one sequence with the longest context. `prefixes`
  // null: no prefix cache.
  ContinuousBatcher(const BatchLimits& limits, PagePool& pool, PrefixCache* prefixes,
                    const LineOptions& line = {});
  // The gate outlives the batcher; set it before the first sequence is added.
  void set_gate(AdmissionGate& gate) { gate_ = &gate; }

  void add(std::unique_ptr<Sequence> sequence);
  // Puts the line into its current order; plan() calls it if sequences have come or gone.
  void arrange() { line_.arrange(running_); }

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
  const std::vector<std::unique_ptr<Sequence>>& running() const { return running_; }

  std::size_t num_running() const { return running_.size(); }
  std::size_t num_waiting() const { return line_.list().size(); }
  // For arrange(), counts and rates; add and remove sequences with the functions above.
  WaitingLine& line() { return line_; }
  const WaitingLine& line() const { return line_; }
  std::uint64_t num_preemptions() const { return preemptions_; }
  // Sums over all first admissions: prompt tokens looked up in the prefix cache, and found there.
  std::uint64_t prefix_queries() const { return prefix_queries_; }
  std::uint64_t prefix_hits() const { return prefix_hits_; }

 private:
  using Plan = std::vector<ScheduledSequence>;

  void set_aside();
  void plan_running(bool decoding);
  void admit();
  std::int32_t reserve_for_admission(Sequence& sequence);
  void find_prefix(Sequence& sequence);
  void note_prefix(const Sequence& sequence);
  void offer_prefix(Sequence& sequence, std::int64_t computed);
  std::int32_t page_ids_of(const Sequence& sequence, std::int32_t rows) const;
  std::int32_t rows_for(const Sequence& sequence) const;
  bool reserve_or_preempt(Sequence& sequence, std::int64_t tokens);
  void preempt(Sequence* victim);
  void send_back(Sequence* sequence);
  void take_rows(Sequence& sequence, std::int32_t rows);
  void try_offer_prefix(Sequence& sequence, std::int64_t computed);
  void give_up_admission(Sequence& sequence);

  BatchLimits limits_;
  PagePool* pool_;
  PrefixCache* prefixes_;
  AdmissionGate* gate_ = nullptr;  // null: all may run
  // Each has capacity for all sequences, so that moving one from list to list never allocates.
  WaitingLine line_;
  std::vector<std::unique_ptr<Sequence>> running_;  // by arrival
  std::vector<Sequence*> all_;                      // see all(); with the same capacity
  Plan plan_;                                       // the step being planned
  Sequence* stuck_ = nullptr;                       // see stuck()
  std::size_t ending_ = 0;                          // running, with the last token in flight
  bool any_aside_ = false;                          // at the last plan()
  std::size_t held_ = 0;                            // running, with samples held back
  bool waits_for_pages_ = false;                    // a running one skips this step
  std::int32_t rows_left_ = 0;
  std::int32_t logit_rows_left_ = 0;
  std::int64_t page_ids_left_ = 0;
  std::int64_t history_left_ = 0;
  std::uint64_t preemptions_ = 0;
  std::uint64_t prefix_queries_ = 0;
  std::uint64_t prefix_hits_ = 0;
};

}  // namespace tandem
