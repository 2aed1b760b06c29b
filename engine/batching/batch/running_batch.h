// The sequences that run: how they come from the line, give way to older ones, and leave.
//
// When there are no free pages, and the pool has nothing idle to reclaim, the newest running
// sequence is preempted: its pages are freed, and it waits in its old place to be recomputed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/batching/batch/admission.h"
#include "engine/batching/batch/prefix_reuse.h"
#include "engine/batching/batch/step_draft.h"
#include "engine/batching/line/waiting_line.h"

namespace tandem {

class RunningBatch {
 public:
  // The arguments outlive it.
  RunningBatch(WaitingLine& line, Admission& admission, const PrefixReuse& prefixes)
      : line_(&line), admission_(&admission), prefixes_(&prefixes) {}

  // Makes room for `count` sequences; without it take_in() may allocate.
  void reserve(std::size_t count);
  const std::vector<std::unique_ptr<Sequence>>& list() const { return list_; }  // by arrival
  // Takes the sequence at this place of the line in. It has passed admission.
  void take_in(std::size_t place);
  // Makes room for `tokens` tokens of a sequence. If there are too few pages and `may_preempt`, the
  // newest sequences are preempted, which takes them out of `step`. False: there is no room now; if
  // the sequence was the newest itself, it is in the batch no longer.
  bool make_room(Sequence& sequence, std::int64_t tokens, bool may_preempt, StepDraft& step);
  // Moves a sequence to its place in the line, to be computed again.
  void send_back(Sequence& sequence) noexcept;
  // Takes a sequence out for good, and offers what it has computed.
  std::unique_ptr<Sequence> remove(Sequence& sequence) noexcept;

  std::uint64_t num_preemptions() const { return preemptions_; }

 private:
  Sequence& newest() const;
  std::unique_ptr<Sequence> take_out(const Sequence& sequence) noexcept;

  WaitingLine* line_;
  Admission* admission_;
  const PrefixReuse* prefixes_;
  std::vector<std::unique_ptr<Sequence>> list_;
  std::uint64_t preemptions_ = 0;
};

}  // namespace tandem
