// When the engine thread does nothing, and what wakes it: waits for work, for the moment to plan
// the next step, and for a step's end.
#include <algorithm>
#include <chrono>
#include <optional>

#include "engine/batching/engine_loop.h"

namespace tandem {

// Only where there is nothing else to do.
void EngineLoop::wait_for_work() {
  // Loads arrive without a word: they are looked at in short turns. Folders that were read come
  // with a notification, cancellations do not.
  constexpr auto kLoadPoll = std::chrono::microseconds(100);
  constexpr auto kIdlePoll = std::chrono::milliseconds(10);
  if (has_news_ || !step_was_empty_ || !executor_->empty()) return;
  executor_->rest();
  if (executor_->tier().is_expecting()) {
    (void)inbox_->wait(kLoadPoll);
  } else if (scheduler_.num_running() + scheduler_.num_waiting() > 0) {
    (void)inbox_->wait(kIdlePoll);
  } else {
    (void)inbox_->wait(std::nullopt);
  }
}

// Whether the next step is to be planned now. If not, some time has passed, and what is looked
// after before a step is to be looked after again.
bool EngineLoop::is_due() {
  if (executor_->empty() || executor_->full()) return true;
  planning_.work = next_work();
  const std::optional<TimePoint> at = executor_->plan_at(planning_.work);
  const TimePoint begin = clock_->now();
  if (!at || begin >= *at || executor_->oldest_has_ended()) return true;
  planning_.held = true;
  while (!executor_->oldest_has_ended()) {
    const TimePoint now = clock_->now();
    if (now >= *at) {
      planning_.since = *at;  // what waking took belongs to what planning takes
      return false;
    }
    if (look_in(now - begin, *at - now)) break;
  }
  planning_.since = clock_->now();
  return false;
}

Planning::Work EngineLoop::next_work() const {
  if (executor_->tier().loads().num_loading() > 0) return Planning::Work::loads;
  const auto in_prompt = [](const auto& sequence) { return sequence->left_to_compute() > 1; };
  const bool prompts =
      scheduler_.num_waiting() > 0 ||
      std::any_of(scheduler_.running().begin(), scheduler_.running().end(), in_prompt);
  return prompts ? Planning::Work::prompts : Planning::Work::decode;
}

// Waiting for the device, the engine thread looks at the inbox as well: what arrives while a step
// runs need not wait for its end, its load begins. A new arrival is a wake-up. The device gives
// none: its event can be waited for, which would be deaf to the inbox, or be looked at, which is
// done in short turns, longer ones in long steps.
void EngineLoop::wait_for_step() {
  if (keeps_all(options_.adapter_mode)) return;
  const TimePoint begin = clock_->now();
  while (!executor_->oldest_has_ended()) {
    if (!look_in(clock_->now() - begin, Duration::max())) continue;
    if (inbox_->is_stopping()) return;
    take_in();
    start_loads();
  }
}

// A short turn of a wait that has taken so long so far. Returns whether something has arrived.
bool EngineLoop::look_in(Duration waited, Duration longest) {
  constexpr auto kShortest = std::chrono::microseconds(20);
  constexpr auto kLongest = std::chrono::microseconds(500);
  executor_->tier().feed();
  return inbox_->wait(std::min(longest, std::clamp<Duration>(waited / 32, kShortest, kLongest)));
}

}  // namespace tandem
