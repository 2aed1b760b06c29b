#include "engine/adapters/device/load_timer.h"

namespace tandem {
namespace {

// In a shorter time, half would be the stream's own delays.
constexpr double kLeast_s = 100e-6;

}  // namespace

LoadTimer::LoadTimer(Device& device)
    : begin_(device.create_timed_event()), end_(device.create_timed_event()) {}

void LoadTimer::begin(Stream& stream) {
  if (state_ == State::ending) return;
  stream.record(*begin_);
  model_s_ = 0;
  state_ = State::copying;
}

void LoadTimer::add(double model_s) {
  if (state_ == State::copying) model_s_ += model_s;
}

void LoadTimer::forget() {
  if (state_ == State::copying) state_ = State::idle;
}

void LoadTimer::end(Stream& stream) {
  if (state_ != State::copying) return;
  stream.record(*end_);
  state_ = State::ending;
}

std::optional<LoadTimer::Took> LoadTimer::look() {
  if (state_ != State::ending || !end_->passed()) return std::nullopt;
  state_ = State::idle;
  const double seen_s = end_->seconds_since(*begin_);
  if (seen_s < kLeast_s) return std::nullopt;
  return Took{model_s_, seen_s};
}

}  // namespace tandem
