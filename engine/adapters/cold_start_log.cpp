#include "engine/adapters/cold_start_log.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace tandem {
namespace {

// A load that begins so long after a reading belongs to another request, as the one that caused the
// reading is gone.
constexpr double kTogether_s = 5;

}  // namespace

// The newest entry of the adapter.
ColdStartLog::Entry* ColdStartLog::find(const ServedAdapter& adapter) {
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->adapter == &adapter) return &*entry;
  }
  return nullptr;
}

ColdStartLog::Entry& ColdStartLog::begin(const ServedAdapter& adapter, TimePoint now) {
  Entry entry{&adapter, now, {}};
  entry.start.number = last_number_ + 1;
  entry.start.adapter = adapter.name();
  entry.start.rank = adapter.contents().max_rank;
  entry.start.bytes = adapter.bytes();
  entry.start.layers_there_s.assign(adapter.contents().layers.size(), -1.0F);
  entry.start.began_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                                  std::chrono::system_clock::now().time_since_epoch())
                                  .count();
  entries_.push_back(std::move(entry));
  ++last_number_;
  if (entries_.size() > kMostStarts) entries_.pop_front();
  return entries_.back();
}

void ColdStartLog::read_begins(const ServedAdapter& adapter) noexcept {
  try {
    const TimePoint now = clock_->now();
    const std::lock_guard lock(mutex_);
    begin(adapter, now).start.read_begin_s = 0;
  } catch (const std::exception&) {  // left out
  }
}

void ColdStartLog::read_ended(const ServedAdapter& adapter, bool well) noexcept {
  const TimePoint now = clock_->now();
  const std::lock_guard lock(mutex_);
  Entry* const entry = find(adapter);
  if (entry == nullptr || !entry->is_open() || entry->start.read_begin_s < 0) return;
  entry->start.read_end_s = seconds_between(entry->began, now);
  entry->start.failed = !well;
}

void ColdStartLog::load_ordered(const ServedAdapter& adapter) noexcept {
  try {
    const TimePoint now = clock_->now();
    const std::lock_guard lock(mutex_);
    Entry* entry = find(adapter);
    const bool goes_on =
        entry != nullptr && entry->is_open() && entry->start.ordered_s < 0 &&
        (entry->start.read_end_s < 0 ||
         seconds_between(entry->began, now) - entry->start.read_end_s < kTogether_s);
    if (!goes_on) entry = &begin(adapter, now);
    entry->start.ordered_s = seconds_between(entry->began, now);
  } catch (const std::exception&) {  // left out
  }
}

void ColdStartLog::layer_there(const ServedAdapter& adapter, std::size_t layer) noexcept {
  const TimePoint now = clock_->now();
  const std::lock_guard lock(mutex_);
  Entry* const entry = find(adapter);
  if (entry == nullptr || !entry->is_open() || layer >= entry->start.layers_there_s.size()) return;
  entry->start.layers_there_s[layer] = static_cast<float>(seconds_between(entry->began, now));
}

void ColdStartLog::load_ended(const ServedAdapter& adapter, bool well) noexcept {
  const TimePoint now = clock_->now();
  const std::lock_guard lock(mutex_);
  Entry* const entry = find(adapter);
  if (entry == nullptr || !entry->is_open()) return;
  entry->start.failed = !well;
  if (!well) return;
  // The arrival of all layers is often seen during a step, and the end of the load only after it.
  std::vector<float>& layers = entry->start.layers_there_s;
  const bool seen = !layers.empty() && std::ranges::min(layers) >= 0;
  entry->start.arrived_s =
      seen ? static_cast<double>(std::ranges::max(layers)) : seconds_between(entry->began, now);
  for (float& there : layers) {
    if (there < 0) there = static_cast<float>(entry->start.arrived_s);
  }
}

// In most cases the load has ended during the step.
void ColdStartLog::step_ended(const ServedAdapter& adapter, double seconds,
                              ColdStart::Step step) noexcept {
  try {
    const TimePoint now = clock_->now();
    const std::lock_guard lock(mutex_);
    Entry* const entry = find(adapter);
    if (entry == nullptr || entry->start.steps.size() >= kMostSteps) return;
    step.end_s = seconds_between(entry->began, now);
    step.begin_s = step.end_s - seconds;
    for (float& begin : step.layers_begin_s) {
      if (begin >= 0) begin += static_cast<float>(step.begin_s);
    }
    entry->start.steps.push_back(std::move(step));
  } catch (const std::exception&) {  // left out
  }
}

void ColdStartLog::first_token(const ServedAdapter& adapter) noexcept {
  const TimePoint now = clock_->now();
  const std::lock_guard lock(mutex_);
  Entry* const entry = find(adapter);
  if (entry == nullptr || entry->start.first_token_s >= 0) return;
  entry->start.first_token_s = seconds_between(entry->began, now);
}

void ColdStartLog::forget() noexcept {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

std::vector<ColdStart> ColdStartLog::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<ColdStart> result;
  for (const Entry& entry : entries_) result.push_back(entry.start);
  return result;
}

}  // namespace tandem
