// Time as a dependency, so that tests can move the clock themselves instead of sleeping.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace tandem {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

// Time stands still until advance() is called.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override {
    const std::lock_guard lock(mutex_);
    ++times_asked_;
    return now_;
  }
  void advance(Duration by) {
    const std::lock_guard lock(mutex_);
    now_ += by;
  }
  // The number of now() calls. Once it has risen by a few, a thread that polls the clock has seen
  // the current time.
  std::uint64_t times_asked() const {
    const std::lock_guard lock(mutex_);
    return times_asked_;
  }

 private:
  mutable std::mutex mutex_;
  TimePoint now_{};
  mutable std::uint64_t times_asked_ = 0;
};

inline Duration duration_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

inline double seconds_between(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace tandem
