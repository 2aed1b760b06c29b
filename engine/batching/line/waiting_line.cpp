#include "engine/batching/line/waiting_line.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace tandem {
namespace {

// Sequences that came after the last arrange() stand behind all others until the next one.
constexpr std::uint32_t kNoTurnYet = std::numeric_limits<std::uint32_t>::max();

std::uint64_t adapter_number(const AdapterLease& adapter) {
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(adapter.get()));
}

// True if no step has computed anything of its request, so that the client may still be asked to
// retry.
bool has_not_begun(const Sequence& sequence) {
  return !sequence.life.has_begun() && !sequence.context().first_scheduled;
}

}  // namespace

bool goes_before(const Sequence& a, const Sequence& b) {
  return std::tuple(a.place.turn(), a.place.entry().priority, a.arrival) <
         std::tuple(b.place.turn(), b.place.entry().priority, b.arrival);
}

WaitingLine::WaitingLine(const LineOptions& options)
    : options_(options),
      order_({.by_priority = options.by_priority,
              .fair = options.fair,
              .adapter_clusters = options.adapter_clusters,
              .max_passed_over = static_cast<std::uint32_t>(options.max_passed_over)}) {}

void WaitingLine::reserve(std::size_t count) {
  for (Sequences* list : {&list_, &arranging_}) {
    if (list->capacity() < count) list->reserve(2 * count);
  }
}

void WaitingLine::add(std::unique_ptr<Sequence> sequence) {
  const GenerationRequest& request = sequence->context().request;
  QueueEntry& entry = sequence->place.entry_;
  entry.priority = options_.by_priority ? request.priority : 0;
  entry.arrival = sequence->arrival;
  entry.adapter = adapter_number(sequence->context().adapter);
  entry.prompt_tokens = sequence->left_to_compute();
  // A continued output had its first token elsewhere.
  entry.has_deadline =
      options_.early_abort && request.ttft_deadline_s > 0 && request.before.empty();
  if (options_.fair) {
    sequence->place.stay_ = TenantStay(share_, request.tenant);
    entry.tenant = sequence->place.stay_.tenant();
  }
  sequence->place.turn_ = has_turns_ ? kNoTurnYet : 0;
  reserve(list_.size() + 1);
  abort_.came();
  sequence->life.enter_line();
  insert(std::move(sequence));
}

void WaitingLine::put_back(std::unique_ptr<Sequence> sequence) noexcept {
  sequence->life.send_back();
  sequence->place.turn_ = 0;  // before all sequences that have a turn
  insert(std::move(sequence));
}

void WaitingLine::insert(std::unique_ptr<Sequence> sequence) noexcept {
  is_arranged_ = false;
  if (sequence->place.entry_.has_deadline && has_not_begun(*sequence)) ++deadlines_;
  const auto at =
      std::upper_bound(list_.begin(), list_.end(), sequence,
                       [](const auto& a, const auto& b) { return goes_before(*a, *b); });
  list_.insert(at, std::move(sequence));
}

std::unique_ptr<Sequence> WaitingLine::take(Sequences::iterator at) noexcept {
  is_arranged_ = false;
  std::unique_ptr<Sequence> sequence = std::move(*at);
  list_.erase(at);
  return sequence;
}

std::unique_ptr<Sequence> WaitingLine::admit(std::size_t place) noexcept {
  std::unique_ptr<Sequence> sequence = take(list_.begin() + static_cast<std::ptrdiff_t>(place));
  sequence->life.admit();
  QueueEntry& entry = sequence->place.entry_;
  if (has_turns_) {
    for (const auto& each : list_) QueueOrder::count_passed_over(entry, each->place.entry_);
  }
  if (std::exchange(entry.begun, true)) return sequence;
  abort_.was_admitted();
  if (entry.tenant != nullptr) share_.begin(*entry.tenant, sequence->left_to_compute());
  return sequence;
}

std::unique_ptr<Sequence> WaitingLine::remove(const Sequence* sequence) noexcept {
  const auto at = std::find_if(list_.begin(), list_.end(),
                               [&](const auto& each) { return each.get() == sequence; });
  return at == list_.end() ? nullptr : take(at);
}

// Needed only after arrange() gave places: otherwise the line is always by priority and arrival.
void WaitingLine::order_plainly() {
  for (const auto& each : list_) each->place.turn_ = 0;
  std::sort(list_.begin(), list_.end(),
            [](const auto& a, const auto& b) { return goes_before(*a, *b); });
  has_turns_ = false;
}

void WaitingLine::arrange(std::span<const std::unique_ptr<Sequence>> running) {
  is_arranged_ = true;
  const bool overloaded = deadlines_ > 0 && abort_.is_overloaded();
  if (order_.is_plain(overloaded)) {
    if (has_turns_) order_plainly();
    return;
  }
  entries_.clear();
  for (const auto& each : list_) entries_.push_back(&each->place.entry_);
  in_batch_.clear();
  if (options_.adapter_clusters > 0) {
    for (const auto& each : running) in_batch_.push_back(each->place.entry_.adapter);
  }
  const std::vector<std::uint32_t>& places = order_.arrange(entries_, in_batch_, overloaded);
  std::uint32_t turn = 0;
  for (const std::uint32_t place : places) {
    list_[place]->place.turn_ = ++turn;
    arranging_.push_back(std::move(list_[place]));
  }
  list_.swap(arranging_);
  arranging_.clear();
  has_turns_ = true;
}

void WaitingLine::tick(TimePoint now) {
  abort_.tick(std::chrono::duration<double>(now.time_since_epoch()).count());
}

void WaitingLine::saw_prefill(double seconds, std::int64_t prompt_tokens) {
  abort_.saw_prefill(seconds, prompt_tokens);
}

const std::vector<Sequence*>& WaitingLine::late(TimePoint now, bool idle) {
  late_.clear();
  if (deadlines_ == 0) return late_;
  deadlines_ = 0;  // counted again, as a sibling's first step ends the deadline of the others
  for (const auto& each : list_) {
    if (!each->place.entry_.has_deadline || !has_not_begun(*each)) continue;
    ++deadlines_;
    const RequestContext& context = each->context();
    const EarlyAbort::Lateness lateness =
        abort_.lateness(seconds_between(context.submitted, now), context.request.ttft_deadline_s,
                        each->left_to_compute(), idle);
    if (lateness == EarlyAbort::Lateness::in_time) continue;
    late_.push_back(each.get());
    ++(lateness == EarlyAbort::Lateness::expired ? counts_.aborts_expired
                                                 : counts_.aborts_unreachable);
  }
  return late_;
}

std::int32_t WaitingLine::retry_after_s() const {
  return static_cast<std::int32_t>(
      std::ceil(abort_.retry_after_s(static_cast<std::int64_t>(list_.size()))));
}

LineCounts WaitingLine::counts() const {
  LineCounts counts = counts_;
  counts.tenants = share_.num_present();
  counts.overloaded = !list_.empty() && abort_.is_overloaded();
  counts.longest_prefill_s = abort_.longest_prefill_s(std::numeric_limits<std::int64_t>::max());
  return counts;
}

}  // namespace tandem
