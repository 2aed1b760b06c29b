// The sequences that wait for a place in the batch: their order, and the ones that are given up
// because their first token would be too late.
//
// By default the line is kept in the order of priority and arrival. With fairness, clusters or
// overload it is arranged before each step (scheduler/planning/queue/queue_order.h), and
// PlaceInLine::turn has the order. goes_before() is right in both cases.
//
// Only the engine thread may use it. add() and arrange() throw if memory runs out: a sequence that
// was to be added is destroyed. The other functions do not allocate, if reserve() was called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/batching/line/line_options.h"
#include "engine/batching/line/sequence.h"
#include "scheduler/planning/queue/early_abort.h"
#include "scheduler/planning/queue/fair_share.h"
#include "scheduler/planning/queue/queue_order.h"

namespace tandem {

// True if `a` is ahead of `b` in the line; also valid if one of them has left it.
bool goes_before(const Sequence& a, const Sequence& b);

// Counts since the start, and some values of the moment.
struct LineCounts {
  std::uint64_t aborts_expired = 0;  // with deadlines that had passed
  std::uint64_t aborts_unreachable =
      0;                         // with deadlines that a prefill begun at once would have missed
  std::size_t tenants = 0;       // now: with requests that wait or run; 0 unless fair
  bool overloaded = false;       // now: some wait, and more come than are admitted
  double longest_prefill_s = 0;  // of the latest ones, of any length
};

class WaitingLine {
 public:
  using Sequences = std::vector<std::unique_ptr<Sequence>>;

  explicit WaitingLine(const LineOptions& options);

  // Makes room for `count` sequences.
  void reserve(std::size_t count);
  // Adds a new sequence. Its tenant is counted until the sequence is destroyed; the line outlives
  // it.
  void add(std::unique_ptr<Sequence> sequence);
  // Puts a sequence that ran back into its old place.
  void put_back(std::unique_ptr<Sequence> sequence) noexcept;
  // Takes a sequence out to run; `place` is an index of list().
  std::unique_ptr<Sequence> admit(std::size_t place) noexcept;
  // Takes a sequence out for other reasons; null: it is not in the line.
  std::unique_ptr<Sequence> remove(const Sequence* sequence) noexcept;

  // The sequences in order.
  const Sequences& list() const { return list_; }
  // Puts the line into its current order, unless it only depends on priority and arrival.
  void arrange(std::span<const std::unique_ptr<Sequence>> running);
  // True if no sequence has come or gone since arrange().
  bool is_arranged() const { return is_arranged_; }

  // Call it regularly, even if nothing happened: rates are measured with it.
  void tick(TimePoint now);
  // Records that a request's first token came `seconds` after its first step began.
  void saw_prefill(double seconds, std::int64_t prompt_tokens);
  // The sequences to give up: no step has computed a token of them, and a first token would be too
  // late. `idle`: nothing runs; then only passed deadlines count, so that an estimate of prefill
  // times that is too high gets corrected. Counts them. Valid until the next call.
  const std::vector<Sequence*>& late(TimePoint now, bool idle);
  // Estimated seconds until such a request may be served, from 1 to 60.
  std::int32_t retry_after_s() const;

  LineCounts counts() const;

 private:
  void insert(std::unique_ptr<Sequence> sequence) noexcept;
  std::unique_ptr<Sequence> take(Sequences::iterator at) noexcept;
  void order_plainly();

  LineOptions options_;
  FairShare share_;  // before the sequences, which are counted in it
  QueueOrder order_;
  EarlyAbort abort_;
  Sequences list_;             // by goes_before()
  Sequences arranging_;        // empty, with the capacity of list_
  bool has_turns_ = false;     // list_ is not in the order of priority and arrival
  bool is_arranged_ = true;    // see is_arranged()
  std::size_t deadlines_ = 0;  // upper bound of those in list_ that may be late
  std::vector<QueueEntry*> entries_;
  std::vector<std::uint64_t> in_batch_;
  std::vector<Sequence*> late_;
  LineCounts counts_;
};

}  // namespace tandem
