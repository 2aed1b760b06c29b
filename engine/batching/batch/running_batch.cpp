#include "engine/batching/batch/running_batch.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {

void RunningBatch::reserve(std::size_t count) {
  if (list_.capacity() < count) list_.reserve(2 * count);
}

void RunningBatch::take_in(std::size_t place) {
  std::unique_ptr<Sequence> sequence = line_->admit(place);
  const auto at =
      std::upper_bound(list_.begin(), list_.end(), sequence->arrival,
                       [](std::uint64_t arrival, const auto& b) { return arrival < b->arrival; });
  list_.insert(at, std::move(sequence));
}

bool RunningBatch::make_room(Sequence& sequence, std::int64_t tokens, bool may_preempt,
                             StepDraft& step) {
  while (!sequence.pages.reserve(tokens)) {
    if (!may_preempt) return false;
    Sequence& victim = newest();
    step.drop(victim);
    ++preemptions_;
    ++victim.context().stats.preemptions;
    send_back(victim);
    if (&victim == &sequence) return false;
  }
  return true;
}

// The one that gives way. Those whose samples are held back keep their pages; the sequence that
// needs room is none of them.
Sequence& RunningBatch::newest() const {
  return **std::find_if(list_.rbegin(), list_.rend(),
                        [](const auto& each) { return each->results.held().empty(); });
}

void RunningBatch::send_back(Sequence& sequence) noexcept {
  std::unique_ptr<Sequence> owned = take_out(sequence);
  admission_->leave(*owned);
  line_->put_back(std::move(owned));
}

std::unique_ptr<Sequence> RunningBatch::remove(Sequence& sequence) noexcept {
  std::unique_ptr<Sequence> owned = take_out(sequence);
  prefixes_->offer(*owned, owned->computed());
  admission_->leave(*owned);
  return owned;
}

std::unique_ptr<Sequence> RunningBatch::take_out(const Sequence& sequence) noexcept {
  const auto at = std::ranges::find(list_, &sequence, &std::unique_ptr<Sequence>::get);
  TANDEM_CHECK(at != list_.end(), "sequence {} does not run", sequence.arrival);
  std::unique_ptr<Sequence> owned = std::move(*at);
  list_.erase(at);
  return owned;
}

}  // namespace tandem
