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
  // The speed in gigabytes (1e9 bytes) per second; 0: not throttled.
  explicit LinkPacer(double gigabytes_per_second) : bytes_per_second_(gigabytes_per_second * 1e9) {}

  bool throttled() const { return bytes_per_second_ > 0; }
  // The time that a link of this speed takes for `bytes`.
  Duration time_of(std::size_t bytes) const;
  // Books the link for `bytes` more and returns when they have arrived. Bookings queue: each starts
  // where the previous one ended if that was at most kCredit before `now`, so that a sender that
  // overslept a little loses no speed. Otherwise the link was idle and the booking starts at `now`.
  TimePoint reserve(TimePoint now, std::size_t bytes);

  static constexpr std::chrono::microseconds kCredit{200};

 private:
  const double bytes_per_second_;
  std::mutex mutex_;
  TimePoint free_at_ = TimePoint::min();
};

}  // namespace tandem
