// Recovery of the engine thread after an exception: see engine_loop.h.
#include <chrono>
#include <exception>
#include <utility>

#include "base/log/log.h"
#include "engine/batching/engine_loop.h"

namespace tandem {

// Does not allocate, as there may be no memory.
void EngineLoop::recover(const char* why) noexcept {
  constexpr int kEndRunning = 3;
  constexpr int kEndAll = 5;
  constexpr int kEndEngine = 12;
  constexpr auto kPause = std::chrono::milliseconds(10);  // for others to free memory
  if (std::exchange(steps_before_, steps_through_) != steps_through_) failures_in_row_ = 0;
  ++failures_in_row_;
  Status broken = executor_->abandon();
  deliveries_.left_all_steps();
  num_digested_ = num_enqueued_;
  report_.forget();
  gate_.restart();
  scheduler_.restart();
  const char* what_ends = "its requests start anew";
  if (failures_in_row_ >= kEndAll) {
    what_ends = "all requests end";
    lose_sequences(/*waiting_too=*/true);
  } else if (failures_in_row_ >= kEndRunning) {
    what_ends = "the requests that ran end";
    lose_sequences(/*waiting_too=*/false);
  }
  if (prefixes_ != nullptr) prefixes_->drop_idle();
  deliveries_.send();
  if (recording_ != nullptr) recording_->break_off();
  if (broken.code() == StatusCode::fatal) inbox_->end(std::move(broken));
  if (failures_in_row_ >= kEndEngine) inbox_->end(std::move(hopeless_));
  has_news_ = true;
  step_was_empty_ = false;
  try {
    log::error("the engine's thread failed ({}), {} times in a row: {}", why, failures_in_row_,
               what_ends);
  } catch (const std::exception&) {  // the log has no memory either
  }
  if (failures_in_row_ > 1) inbox_->wait_for_stop(kPause);
}

// Requires that no step is in flight.
void EngineLoop::lose_sequences(bool waiting_too) noexcept {
  for (Sequence* sequence : scheduler_.all()) {
    if (waiting_too || sequence->life.has_begun()) deliveries_.lose(*sequence);
  }
}

}  // namespace tandem
