#include "engine/batching/batch/continuous_batcher.h"

#include <utility>

#include "base/check.h"

namespace tandem {

ContinuousBatcher::ContinuousBatcher(const BatchLimits& limits, PagePool& pool,
                                     PrefixCache* prefixes, const LineOptions& line)
    : limits_(limits),
      pool_(&pool),
      prefixes_(prefixes),
      admission_(pool, prefixes_, limits.rotary),
      line_(line),
      batch_(line_, admission_, prefixes_),
      step_(limits, pool) {
  TANDEM_CHECK(limits.max_num_seqs > 0 && limits.max_num_batched_tokens > 0);
  TANDEM_CHECK(limits.max_logit_rows >= limits.max_num_seqs, "every sequence needs a logits row");
}

void ContinuousBatcher::set_gate(AdmissionGate& gate) {
  prefixes_.set_gate(gate);
  admission_.set_gate(gate);
}

void ContinuousBatcher::add(std::unique_ptr<Sequence> sequence) {
  const std::size_t count = num_waiting() + num_running() + 1;
  line_.reserve(count);
  batch_.reserve(count);
  if (all_.capacity() < count) all_.reserve(2 * count);
  line_.add(std::move(sequence));
}

const std::vector<ScheduledSequence>& ContinuousBatcher::plan() {
  step_.clear();
  stuck_ = nullptr;
  waits_for_pages_ = any_aside_ = false;
  if (!line_.is_arranged()) arrange();
  admission_.plan_begins();
  set_aside();
  count_paused();
  offer_before_windows_pass();
  plan_running(/*decoding=*/true);
  plan_running(/*decoding=*/false);
  // No sequence is preempted from here on, so the planned rows will be computed.
  for (const auto& [sequence, rows] : step_.entries()) {
    prefixes_.offer(*sequence, sequence->computed() + rows);
  }
  admit();
  const bool waits =
      waiting().empty() || stuck_ != nullptr || any_aside_ || admission_.is_waiting();
  TANDEM_CHECK(!step_.entries().empty() || ending_ + held_ > 0 || (running().empty() && waits),
               "nothing can be scheduled: {} running, {} waiting, {} of {} pages free",
               num_running(), num_waiting(), pool_->num_free(), pool_->shape().num_pages);
  return step_.entries();
}

// Sends those back whose readers are behind, and those whose keys have to be computed again.
void ContinuousBatcher::set_aside() {
  // By index, as sequences leave the list meanwhile.
  for (std::size_t i = num_running(); i-- > 0;) {
    Sequence& sequence = *running()[i];
    if (sequence.is_paused()) continue;
    if (sequence.stands_aside() || admission_.is_outgrown(sequence)) batch_.send_back(sequence);
  }
}

// Pages that another sequence has offered, too, can be offered only after the step that computes
// them. Planning the next one gives back those that no row sees any more.
void ContinuousBatcher::offer_before_windows_pass() {
  if (pool_->shape().groups.windowed == 0) return;
  for (const auto& each : running()) prefixes_.offer(*each, each->computed());
}

void ContinuousBatcher::count_paused() {
  ending_ = held_ = 0;
  for (const auto& each : running()) {
    if (!each->results.held().empty()) {
      ++held_;
    } else if (each->awaits_last_token()) {
      ++ending_;
    }
  }
}

void ContinuousBatcher::plan_running(bool decoding) {
  // Sequences that end with the step in flight will free their pages soon: none is preempted then,
  // and one without pages skips the step.
  const bool may_preempt = ending_ == 0;
  // By index, as a preemption removes sequences from the end of the list meanwhile.
  for (std::size_t i = 0; i < num_running() && step_.has_rows_left(); ++i) {
    Sequence& sequence = *running()[i];
    if (sequence.is_paused()) continue;
    if ((sequence.left_to_compute() == 1) != decoding) continue;
    const std::int32_t rows = step_.rows_for(sequence);
    if (rows == 0) continue;
    if (batch_.make_room(sequence, sequence.computed() + rows, may_preempt, step_)) {
      step_.add(sequence, rows);
    } else {
      waits_for_pages_ = waits_for_pages_ || !may_preempt;
    }
  }
}

void ContinuousBatcher::admit() {
  std::size_t next = 0;
  while (!waits_for_pages_ && next < num_waiting() && step_.has_rows_left() &&
         num_running() - ending_ < static_cast<std::size_t>(limits_.max_num_seqs)) {
    Sequence& sequence = *waiting()[next];
    const bool aside = sequence.stands_aside();
    any_aside_ = any_aside_ || aside;
    if (aside || !admission_.passes_gate(sequence)) {
      ++next;
      continue;
    }
    const std::int32_t rows = admission_.take_pages(sequence, step_, running().empty());
    if (rows == 0) {  // nor do later ones get pages before it
      if (admission_.has_gate() && running().empty()) stuck_ = &sequence;
      return;
    }
    batch_.take_in(next);
    step_.add(sequence, rows);
    prefixes_.offer(sequence, sequence.computed() + rows);
  }
}

void ContinuousBatcher::replay(Sequence* sequence) {
  sequence->replay();
  if (sequence->life.is_in_batch()) batch_.send_back(*sequence);
}

void ContinuousBatcher::restart() noexcept {
  step_.clear();
  stuck_ = nullptr;
  ending_ = held_ = 0;
  while (!running().empty()) batch_.send_back(*running().back());
  for (const auto& sequence : waiting()) sequence->restart();
}

std::unique_ptr<Sequence> ContinuousBatcher::remove(Sequence* sequence) noexcept {
  if (sequence->life.is_in_batch()) return batch_.remove(*sequence);
  std::unique_ptr<Sequence> owned = line_.remove(sequence);
  TANDEM_CHECK(owned != nullptr, "removing a sequence that is not scheduled");
  return owned;
}

const std::vector<Sequence*>& ContinuousBatcher::all() {
  all_.clear();
  for (const auto& each : running()) all_.push_back(each.get());
  for (const auto& each : waiting()) all_.push_back(each.get());
  return all_;
}

}  // namespace tandem
