// The clock of an emulated link between host and device: paces copies to a configured speed.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>

#include "base/clock.h"

namespace tandem {

// One link that all streams of a device share. Thread-safe.
class LinkPacer {
 public:
  // gigabytes (1e9) per second; 0: not throttled.
  explicit LinkPacer(double gigabytes_per_second) : bytes_per_second_(gigabytes_per_second * 1e9) {}

  bool throttled() const { return bytes_per_second_ > 0; }
  // What a link of this speed takes for `bytes`.
  Duration time_of(std::size_t bytes) const;
  // Books the link for `bytes` more; they have arrived at the time returned. Bookings queue: each
  // starts where the one before ended if that is up to kCredit before `now`, so that a sender that
  // overslept a little loses no speed, and else `now`: the link was idle.
  TimePoint reserve(TimePoint now, std::size_t bytes);

  static constexpr std::chrono::microseconds kCredit{200};

 private:
  const double bytes_per_second_;
  std::mutex mutex_;
  TimePoint free_at_ = TimePoint::min();
};

}  // namespace tandem
