#include "engine/batching/batch/continuous_batcher.h"

#include <algorithm>
#include <new>
#include <span>
#include <string>

#include "base/check.h"

namespace tandem {
namespace {

// The rows of this chunk that need logits: all prompt rows if log probabilities are wanted, else
// only the last row of the last chunk.
std::int32_t logit_rows_of(const Sequence& sequence, std::int32_t rows) {
  if (sequence.wants_prompt_logprobs()) return rows;
  return rows == sequence.left_to_compute() ? 1 : 0;
}

// The first `count` of its tokens, or fewer if some of them are unknown.
std::span<const TokenId> known_tokens(const Sequence& sequence, std::int64_t count) {
  return {sequence.tokens.data(), static_cast<std::size_t>(std::min(count, sequence.known_len()))};
}

// Frees its pages. It may find them again in the prefix cache.
void release(Sequence& sequence) {
  sequence.table.clear();
  sequence.prefix.clear();
}

// The number of tokens that its sampling uses after this chunk.
std::int64_t history_of(const Sequence& sequence, std::int32_t rows) {
  if (rows < sequence.left_to_compute()) return 0;
  return sequence.context->request.sampling.has_penalty()
             ? static_cast<std::int64_t>(sequence.tokens.size())
             : 0;
}

template <typename List>
auto position_of(List& list, const Sequence* sequence) {
  return std::find_if(list.begin(), list.end(),
                      [&](const auto& each) { return each.get() == sequence; });
}

}  // namespace

ContinuousBatcher::ContinuousBatcher(const BatchLimits& limits, PagePool& pool,
                                     PrefixCache* prefixes, const LineOptions& line)
    : limits_(limits), pool_(&pool), prefixes_(prefixes), line_(line) {
  TANDEM_CHECK(limits.max_num_seqs > 0 && limits.max_num_batched_tokens > 0);
  TANDEM_CHECK(limits.max_logit_rows >= limits.max_num_seqs, "every sequence needs a logits row");
  plan_.reserve(static_cast<std::size_t>(limits.max_num_seqs));
}

void ContinuousBatcher::add(std::unique_ptr<Sequence> sequence) {
  const std::size_t count = num_waiting() + running_.size() + 1;
  const auto make_room = [count](auto& list) {
    if (list.capacity() < count) list.reserve(2 * count);
  };
  line_.reserve(count);
  make_room(running_);
  make_room(all_);
  line_.add(std::move(sequence));
}

const std::vector<ScheduledSequence>& ContinuousBatcher::plan() {
  plan_.clear();
  if (!line_.is_arranged()) arrange();
  if (gate_ != nullptr) gate_->plan_begins();
  waits_for_pages_ = false;
  stuck_ = nullptr;
  any_aside_ = false;
  set_aside();
  ending_ = held_ = 0;
  for (const auto& each : running_) {
    if (!each->held.empty()) {
      ++held_;
    } else if (each->awaits_last_token()) {
      ++ending_;
    }
  }
  rows_left_ = limits_.max_num_batched_tokens;
  logit_rows_left_ = limits_.max_logit_rows;
  history_left_ = limits_.max_history;
  page_ids_left_ = limits_.max_page_ids;
  plan_running(/*decoding=*/true);
  plan_running(/*decoding=*/false);
  // No sequence is preempted from here on, so the planned rows will be computed.
  for (const auto& [sequence, rows] : plan_) {
    try_offer_prefix(*sequence, sequence->computed + rows);
  }
  admit();
  const bool waits = waiting().empty() || stuck_ != nullptr || any_aside_ ||
                     (gate_ != nullptr && gate_->is_waiting());
  TANDEM_CHECK(!plan_.empty() || ending_ + held_ > 0 || (running_.empty() && waits),
               "nothing can be scheduled: {} running, {} waiting, {} of {} pages free",
               running_.size(), num_waiting(), pool_->num_free(), pool_->shape().num_pages);
  return plan_;
}

void ContinuousBatcher::set_aside() {
  // By index, as sequences leave the list meanwhile.
  for (std::size_t i = running_.size(); i-- > 0;) {
    Sequence& sequence = *running_[i];
    if (sequence.stands_aside() && !sequence.is_paused()) send_back(&sequence);
  }
}

void ContinuousBatcher::plan_running(bool decoding) {
  // By index, as a preemption removes sequences from the end of the list meanwhile.
  for (std::size_t i = 0; i < running_.size() && rows_left_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.is_paused()) continue;
    if ((sequence.left_to_compute() == 1) != decoding) continue;
    const std::int32_t rows = rows_for(sequence);
    if (rows == 0 || page_ids_of(sequence, rows) > page_ids_left_) continue;
    if (reserve_or_preempt(sequence, sequence.computed + rows)) {
      take_rows(sequence, rows);
    }
  }
}

void ContinuousBatcher::admit() {
  std::size_t next = 0;
  while (!waits_for_pages_ && next < num_waiting() && rows_left_ > 0 &&
         running_.size() - ending_ < static_cast<std::size_t>(limits_.max_num_seqs)) {
    Sequence& sequence = *waiting()[next];
    if (sequence.stands_aside()) {
      any_aside_ = true;
      ++next;
      continue;
    }
    // The gate comes before the pages, so that the sequence's own adapter is not reclaimed for
    // them.
    if (gate_ != nullptr && !gate_->enter(sequence)) {
      ++next;
      continue;
    }
    std::int32_t rows = 0;
    try {
      rows = reserve_for_admission(sequence);
    } catch (...) {
      give_up_admission(sequence);
      throw;
    }
    if (rows == 0) {
      if (gate_ != nullptr && running_.empty()) stuck_ = &sequence;
      return give_up_admission(sequence);
    }
    note_prefix(sequence);
    if (gate_ != nullptr) gate_->begins(sequence);
    const auto at =
        std::upper_bound(running_.begin(), running_.end(), sequence.arrival,
                         [](std::uint64_t arrival, const auto& b) { return arrival < b->arrival; });
    running_.insert(at, line_.admit(next));
    take_rows(sequence, rows);
    try_offer_prefix(sequence, sequence.computed + rows);
  }
}

void ContinuousBatcher::give_up_admission(Sequence& sequence) {
  if (gate_ != nullptr) gate_->leave(sequence);
  sequence.table.clear();
  sequence.prefix.take_back();
  sequence.computed = 0;
}

// Returns the number of its first rows, with pages reserved for them; 0: it has to wait.
std::int32_t ContinuousBatcher::reserve_for_admission(Sequence& sequence) {
  find_prefix(sequence);
  const std::int32_t rows = rows_for(sequence);
  if (rows == 0 || page_ids_of(sequence, rows) > page_ids_left_) return 0;
  // The whole prompt must fit now, though only a chunk of it is reserved: a sequence admitted into
  // the last pages would be the first to be preempted. While others run, one more page is left for
  // their next tokens.
  if (!running_.empty()) {
    const std::int64_t missing =
        pool_->shape().pages_for(static_cast<std::int64_t>(sequence.tokens.size())) -
        static_cast<std::int64_t>(sequence.table.pages().size());
    if (missing + 1 > pool_->available_pages()) return 0;
  }
  return sequence.table.reserve(sequence.computed + rows) ? rows : 0;
}

void ContinuousBatcher::find_prefix(Sequence& sequence) {
  if (prefixes_ == nullptr) return;
  const AdapterLease& adapter = sequence.context->adapter;
  // The last token is always computed, as its logits are needed. If log probabilities of the prompt
  // are wanted, all of its tokens are.
  std::span<const TokenId> reusable;
  if (!sequence.wants_prompt_logprobs()) {
    reusable = known_tokens(sequence, static_cast<std::int64_t>(sequence.tokens.size()) - 1);
  }
  sequence.computed = prefixes_->enter(
      sequence.prefix, adapter == nullptr ? std::string() : adapter->contents().digest, reusable,
      sequence.table);
}

void ContinuousBatcher::note_prefix(const Sequence& sequence) {
  if (prefixes_ == nullptr || sequence.admitted) return;
  prefix_queries_ += static_cast<std::uint64_t>(sequence.prompt_len());
  const std::int64_t found = std::min(sequence.computed, sequence.prompt_len());
  prefix_hits_ += static_cast<std::uint64_t>(found);
  if (sequence.index == sequence.context->lead) {
    sequence.context->stats.cached_tokens = static_cast<std::int32_t>(found);
  }
}

void ContinuousBatcher::offer_prefix(Sequence& sequence, std::int64_t computed) {
  if (prefixes_ == nullptr) return;
  // Results of an adapter whose content is not proven are offered later, or never.
  if (gate_ != nullptr && gate_->is_in_doubt(sequence)) return;
  prefixes_->extend(sequence.prefix, known_tokens(sequence, computed), sequence.computed,
                    sequence.table);
}

// Ignores a lack of memory: other sequences compute the tokens themselves then.
void ContinuousBatcher::try_offer_prefix(Sequence& sequence, std::int64_t computed) {
  try {
    offer_prefix(sequence, computed);
  } catch (const std::bad_alloc&) {
  }
}

std::int32_t ContinuousBatcher::page_ids_of(const Sequence& sequence, std::int32_t rows) const {
  return pool_->shape().pages_for(sequence.computed + rows);
}

std::int32_t ContinuousBatcher::rows_for(const Sequence& sequence) const {
  std::int64_t rows = std::min<std::int64_t>(sequence.left_to_compute(), rows_left_);
  const bool prefill = sequence.left_to_compute() > 1;
  if (prefill && limits_.max_prefill_chunk > 0) {
    rows = std::min<std::int64_t>(rows, limits_.max_prefill_chunk);
  }
  if (sequence.wants_prompt_logprobs()) {
    // All of these rows need logits, and the decoding sequences have theirs already.
    rows = std::min<std::int64_t>(rows, logit_rows_left_);
  } else if (rows == sequence.left_to_compute() && logit_rows_left_ == 0) {
    rows -= 1;  // all but the last row, which would need logits
  }
  if (history_of(sequence, static_cast<std::int32_t>(rows)) > history_left_) rows -= 1;
  return static_cast<std::int32_t>(rows);
}

void ContinuousBatcher::take_rows(Sequence& sequence, std::int32_t rows) {
  plan_.push_back({&sequence, rows});
  rows_left_ -= rows;
  logit_rows_left_ -= logit_rows_of(sequence, rows);
  page_ids_left_ -= page_ids_of(sequence, rows);
  history_left_ -= history_of(sequence, rows);
}

bool ContinuousBatcher::reserve_or_preempt(Sequence& sequence, std::int64_t tokens) {
  while (!sequence.table.reserve(tokens)) {
    // Sequences that end with the step in flight will free their pages soon: none is preempted, and
    // this one skips the step.
    if (ending_ > 0) {
      waits_for_pages_ = true;
      return false;
    }
    Sequence* const newest = std::find_if(running_.rbegin(), running_.rend(), [](const auto& each) {
                               return each->held.empty();
                             })->get();  // the sequence itself, if no other
    preempt(newest);
    if (newest == &sequence) return false;
  }
  return true;
}

void ContinuousBatcher::preempt(Sequence* victim) {
  const auto planned = std::find_if(plan_.begin(), plan_.end(), [&](const ScheduledSequence& each) {
    return each.sequence == victim;
  });
  if (planned != plan_.end()) {
    rows_left_ += planned->num_tokens;
    logit_rows_left_ += logit_rows_of(*victim, planned->num_tokens);
    page_ids_left_ += page_ids_of(*victim, planned->num_tokens);
    history_left_ += history_of(*victim, planned->num_tokens);
    plan_.erase(planned);
  }
  ++preemptions_;
  ++victim->context->stats.preemptions;
  send_back(victim);
}

// Moves a running sequence to its place in the line, to be computed again.
void ContinuousBatcher::send_back(Sequence* sequence) {
  const auto at = position_of(running_, sequence);
  std::unique_ptr<Sequence> owned = std::move(*at);
  running_.erase(at);
  if (gate_ != nullptr) gate_->leave(*owned);
  release(*owned);
  owned->computed = 0;
  line_.put_back(std::move(owned));
}

void ContinuousBatcher::replay(Sequence* sequence) {
  ++sequence->replays;
  sequence->set_back();
  if (position_of(running_, sequence) != running_.end()) send_back(sequence);
}

void ContinuousBatcher::restart() noexcept {
  plan_.clear();
  stuck_ = nullptr;
  ending_ = held_ = 0;
  while (!running_.empty()) send_back(running_.back().get());
  for (const auto& sequence : waiting()) {
    sequence->set_back();
    sequence->steps_in_flight = 0;
  }
}

std::unique_ptr<Sequence> ContinuousBatcher::remove(Sequence* sequence) noexcept {
  std::unique_ptr<Sequence> owned;
  if (const auto at = position_of(running_, sequence); at != running_.end()) {
    owned = std::move(*at);
    running_.erase(at);
    if (gate_ != nullptr) gate_->leave(*owned);
    try_offer_prefix(*owned, owned->computed);
  } else {
    owned = line_.remove(sequence);
    TANDEM_CHECK(owned != nullptr, "removing a sequence that is not scheduled");
  }
  release(*owned);
  return owned;
}

const std::vector<Sequence*>& ContinuousBatcher::all() {
  all_.clear();
  for (const auto& each : running_) all_.push_back(each.get());
  for (const auto& each : waiting()) all_.push_back(each.get());
  return all_;
}

}  // namespace tandem
