// The sequences that wait for a place in the batch: in which order they are to have it, and which
// of them are given up because their first token would come too late.
//
// Without choices of its own the line is by priority and arrival, and keeping it so is all that it
// does. Fairness, clusters and overload make it be arranged anew (scheduler/queue/queue_order.h)
// before each step; Sequence::turn then tells the order, and goes_before() holds in either case.
//
// The engine thread alone uses it. add() and arrange() throw where there is no memory: a sequence
// that was to be added is gone then. All else allocates nothing, if reserve() has made room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/batching/line/line_options.h"
#include "engine/batching/line/sequence.h"
#include "scheduler/queue/early_abort.h"
#include "scheduler/queue/fair_share.h"
#include "scheduler/queue/queue_order.h"

namespace tandem {

// In the line; also of two of which one is in it no more.
bool goes_before(const Sequence& a, const Sequence& b);

// Counters since the start but for those of the moment.
struct LineCounts {
  std::uint64_t aborts_expired = 0;  // whose deadlines had passed
  std::uint64_t aborts_unreachable =
      0;                         // whose deadlines a prefill begun at once would have missed
  std::size_t tenants = 0;       // now: with requests that wait or run; 0 unless fair
  bool overloaded = false;       // now: some wait, and more come than are admitted
  double longest_prefill_s = 0;  // of late, of any length
};

class WaitingLine {
 public:
  using Sequences = std::vector<std::unique_ptr<Sequence>>;

  explicit WaitingLine(const LineOptions& options);

  // For so many in it.
  void reserve(std::size_t count);
  // A new one. Its tenant is counted from now on, until it is destroyed; the line outlives it.
  void add(std::unique_ptr<Sequence> sequence);
  // One that ran: it waits in its old place.
  void put_back(std::unique_ptr<Sequence> sequence) noexcept;
  // Out of the line to run, from its place in list().
  std::unique_ptr<Sequence> admit(std::size_t place) noexcept;
  // Out of the line for other reasons; null: it is not in it.
  std::unique_ptr<Sequence> remove(const Sequence* sequence) noexcept;

  // First in line first.
  const Sequences& list() const { return list_; }
  // Puts the line into the order of now, if anything but priority and arrival counts.
  void arrange(std::span<const std::unique_ptr<Sequence>> running);
  // Nothing has come or gone since.
  bool is_arranged() const { return is_arranged_; }

  // Call now and then, whether or not anything happened: rates are counted by it.
  void tick(TimePoint now);
  // A request's first token is there, `seconds` after its first step began.
  void saw_prefill(double seconds, std::int64_t prompt_tokens);
  // Those that are to be given up: no step has had a token of theirs, and a first token would come
  // too late. `idle`: nothing runs; then only those are late whose deadline has passed, so that a
  // wrong guess of what a prefill takes is found out. Counts them. Valid until the next call.
  const std::vector<Sequence*>& late(TimePoint now, bool idle);
  // Seconds after which a request like those may be served, a guess from 1 to 60.
  std::int32_t retry_after_s() const;

  LineCounts counts() const;

 private:
  void insert(std::unique_ptr<Sequence> sequence) noexcept;
  std::unique_ptr<Sequence> take(Sequences::iterator at) noexcept;
  void order_plainly();

  LineOptions options_;
  FairShare share_;  // before the sequences, which count in it
  QueueOrder order_;
  EarlyAbort abort_;
  Sequences list_;             // by goes_before()
  Sequences arranging_;        // empty, with room as in list_
  bool has_turns_ = false;     // list_ is not by priority and arrival alone
  bool is_arranged_ = true;    // see is_arranged()
  std::size_t deadlines_ = 0;  // at most so many in list_ that may be late
  std::vector<QueueEntry*> entries_;
  std::vector<std::uint64_t> in_batch_;
  std::vector<Sequence*> late_;
  LineCounts counts_;
};

}  // namespace tandem
