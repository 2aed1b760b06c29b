// The emulated link between host and device: paces copies to a configured speed.
#pragma once

#include <cstddef>
#include <mutex>

#include "engine/base/clock.h"

namespace tandem::host {

// One link that all streams of a device share. Thread-safe.
class LinkPacer {
 public:
  // gigabytes (1e9) per second; 0: not throttled.
  explicit LinkPacer(double gigabytes_per_second) : bytes_per_second_(gigabytes_per_second * 1e9) {}

  bool throttled() const { return bytes_per_second_ > 0; }
  // Books the link for `bytes` more; they have arrived at the time returned. Bookings queue: each
  // starts where the one before ended, or up to kCredit before `now` if the link was idle, so that
  // a sender that overslept a little loses no speed.
  TimePoint reserve(TimePoint now, std::size_t bytes);

  static constexpr std::chrono::microseconds kCredit{200};

 private:
  const double bytes_per_second_;
  std::mutex mutex_;
  TimePoint free_at_{};
};

// A real copy, in pieces, that takes at least as long as the link would.
void copy_over_link(LinkPacer& link, void* device, const void* host, std::size_t bytes);

}  // namespace tandem::host
