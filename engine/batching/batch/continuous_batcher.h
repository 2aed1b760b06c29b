// The iteration scheduler: which sequences compute how many tokens in the next step.
//
// Running sequences go on (those that decode first, so that a long prompt does not stall them),
// then waiting ones are admitted in the order of their line (line/waiting_line.h: by priority and
// arrival, unless told otherwise) while rows and pages last. Prompts are cut into chunks and mixed
// with decode rows (Sarathi's and Orca's iteration-level batching). When pages run out and the pool
// has nothing idle to reclaim, the newest running sequence gives way: its pages are freed and it
// waits, in its old place, to be recomputed.
//
// An admitted sequence begins after what the prefix cache has of it, its own pages after a
// preemption included; every sequence offers its whole pages as soon as their step is planned, so
// that two that are admitted in one step share already.
//
// Sequences whose readers are behind (Sequence::stands_aside) wait, whatever room there is: their
// pages and rows are others' until they are read on.
//
// A step may be planned while the one before it still runs: the sequences' tokens then end in
// placeholders (Sequence::pending), and those whose last token is under way are passed over; so are
// those whose tokens are held back (Sequence::held), which keep their pages.
//
// Plans over ids only; knows neither device nor model. The engine thread alone uses it. add() and
// plan() throw where there is no memory: a sequence that was to be added is gone then, and after a
// failed plan() everything starts anew (restart). What takes sequences out allocates nothing.
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
  std::int32_t max_prefill_chunk = 0;  // most prompt tokens of one sequence in a step; 0: no limit
  std::int32_t max_logit_rows = 0;     // rows that get logits in a step; >= max_num_seqs
  // Tokens of sequences with penalties that are sampled in a step; at least the longest context.
  std::int64_t max_history = std::int64_t{1} << 20;
  // Page ids of a step, over all its sequences: more than there are pages where they share. At
  // least those of one sequence of the longest context.
  std::int64_t max_page_ids = std::int64_t{1} << 30;
};

struct ScheduledSequence {
  Sequence* sequence;
  std::int32_t num_tokens;  // its next tokens: tokens[computed .. computed + num_tokens)
};

// What a sequence needs to run beside pages: its adapter.
class AdmissionGate {
 public:
  AdmissionGate() = default;
  AdmissionGate(const AdmissionGate&) = delete;
  AdmissionGate& operator=(const AdmissionGate&) = delete;
  virtual ~AdmissionGate() = default;

  // The next step is planned: calls of enter() follow.
  virtual void plan_begins() {}
  // False: not now, and those behind it go on. True: it runs, until leave().
  virtual bool enter(const Sequence& sequence) = 0;
  virtual void leave(const Sequence& sequence) = 0;
  // What entered has its pages and its rows; else it leaves at once.
  virtual void begins(const Sequence& /*sequence*/) {}
  // What it computes may turn out to be void: not for others yet.
  virtual bool is_in_doubt(const Sequence& /*sequence*/) const { return false; }
  // Something is under way that will let sequences in, or free pages.
  virtual bool is_waiting() const = 0;
};

class ContinuousBatcher {
 public:
  // Requires that the pool holds at least one sequence of the longest context. `prefixes` null: no
  // prefix cache.
  ContinuousBatcher(const BatchLimits& limits, PagePool& pool, PrefixCache* prefixes,
                    const LineOptions& line = {});
  // Outlives the scheduler; set before the first sequence is added.
  void set_gate(AdmissionGate& gate) { gate_ = &gate; }

  void add(std::unique_ptr<Sequence> sequence);
  // Puts the line into the order of now; plan() does so itself, if anything has come or gone since.
  void arrange() { line_.arrange(running_); }

  // The next step; empty when there is nothing to do before the steps under way have ended. Pages
  // for all of it are reserved. Valid until the next call.
  const std::vector<ScheduledSequence>& plan();

  // The first in the queue for which, at the last plan(), there were too few pages though nothing
  // runs: what the gate lets nobody reclaim has grown since it was checked, or is spread over more
  // pages than it fills. Null: there is none.
  Sequence* stuck() const { return stuck_; }

  // Sets a sequence back to what is known of it: its pages, whose contents are in doubt, are free
  // at once and offered to nobody, and it waits in its old place. Call PrefixCache::drop_idle()
  // when all whose pages are in doubt have been set back.
  void replay(Sequence* sequence);
  // Takes a sequence out, wherever it is; its pages are free at once.
  std::unique_ptr<Sequence> remove(Sequence* sequence) noexcept;
  // No step is under way any more, and what they computed is in doubt: all that ran wait, in their
  // old places, to be computed again from the tokens that are known. Call PrefixCache::drop_idle()
  // then.
  void restart() noexcept;
  // All sequences, running first; for cancellation and shutdown. Valid until the next call.
  const std::vector<Sequence*>& all();

  // In their order; those that run, by arrival.
  const std::vector<std::unique_ptr<Sequence>>& waiting() const { return line_.list(); }
  const std::vector<std::unique_ptr<Sequence>>& running() const { return running_; }

  std::size_t num_running() const { return running_.size(); }
  std::size_t num_waiting() const { return line_.list().size(); }
  // Add, arrange and take out by the calls above.
  WaitingLine& line() { return line_; }
  const WaitingLine& line() const { return line_; }
  std::uint64_t num_preemptions() const { return preemptions_; }
  // Over all first admissions: prompt tokens looked for in the prefix cache, and found there.
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
  AdmissionGate* gate_ = nullptr;  // none: all may run
  // Each has room for all there are, so that going from one to the other takes no memory.
  WaitingLine line_;
  std::vector<std::unique_ptr<Sequence>> running_;  // by arrival
  std::vector<Sequence*> all_;                      // see all(); room as above
  Plan plan_;                                       // the step being planned
  Sequence* stuck_ = nullptr;                       // see stuck()
  std::size_t ending_ = 0;                          // running, but their last token is under way
  bool any_aside_ = false;                          // at the last plan()
  std::size_t held_ = 0;                            // running, but what was sampled is held back
  bool waits_for_pages_ = false;                    // a running one sits the step out
  std::int32_t rows_left_ = 0;
  std::int32_t logit_rows_left_ = 0;
  std::int64_t page_ids_left_ = 0;
  std::int64_t history_left_ = 0;
  std::uint64_t preemptions_ = 0;
  std::uint64_t prefix_queries_ = 0;
  std::uint64_t prefix_hits_ = 0;
};

}  // namespace tandem
