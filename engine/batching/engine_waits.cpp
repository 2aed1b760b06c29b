// The waits of the engine thread: for work, for the time to plan the next step, and for the end of
// a step.
#include <algorithm>
#include <chrono>
#include <optional>

#include "engine/batching/engine_loop.h"

namespace tandem {

// Waits only if there is nothing else to do.
void EngineLoop::wait_for_work() {
  // Arrivals of loads are polled at short intervals, as they cause no notification. Folders that
  // were read do; cancellations do not.
  constexpr auto kLoadPoll = std::chrono::microseconds(100);
  constexpr auto kIdlePoll = std::chrono::milliseconds(10);
  if (has_news_ || !step_was_empty_ || !executor_->empty()) return;
  executor_->times().rest();
  if (executor_->tier().is_expecting()) {
    (void)inbox_->wait(kLoadPoll);
  } else if (scheduler_.num_running() + scheduler_.num_waiting() > 0) {
    (void)inbox_->wait(kIdlePoll);
  } else {
    (void)inbox_->wait(std::nullopt);
  }
}

// Returns true if the next step should be planned now. If not, some time has passed, and the checks
// before a step have to be repeated.
bool EngineLoop::is_due() {
  if (executor_->empty() || executor_->full()) return true;
  planning_.work = next_work();
  const std::optional<TimePoint> at = executor_->times().plan_at(planning_.work);
  const TimePoint begin = clock_->now();
  if (!at || begin >= *at || executor_->oldest_has_ended()) return true;
  planning_.held = true;
  while (!executor_->oldest_has_ended()) {
    const TimePoint now = clock_->now();
    if (now >= *at) {
      planning_.since = *at;  // the wake-up delay counts as planning time
      return false;
    }
    if (look_in(now - begin, *at - now)) break;
  }
  planning_.since = clock_->now();
  return false;
}

Planning::Work EngineLoop::next_work() const {
  if (executor_->tier().counts().loading > 0) return Planning::Work::loads;
  const auto in_prompt = [](const auto& sequence) { return sequence->left_to_compute() > 1; };
  const bool prompts =
      scheduler_.num_waiting() > 0 ||
      std::any_of(scheduler_.running().begin(), scheduler_.running().end(), in_prompt);
  return prompts ? Planning::Work::prompts : Planning::Work::decode;
}

// While the engine thread waits for the device, it also watches the inbox, so that loads for new
// arrivals begin at once. The inbox wakes the thread; the device does not. A wait for the device's
// event could not be interrupted by the inbox, so the event is polled at short intervals, which are
// longer in long steps.
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

// One interval of a wait that has lasted `waited` so far. Returns true if something has arrived.
bool EngineLoop::look_in(Duration waited, Duration longest) {
  constexpr auto kShortest = std::chrono::microseconds(20);
  constexpr auto kLongest = std::chrono::microseconds(500);
  executor_->tier().loads().feed();
  return inbox_->wait(std::min(longest, std::clamp<Duration>(waited / 32, kShortest, kLongest)));
}

}  // namespace tandem
