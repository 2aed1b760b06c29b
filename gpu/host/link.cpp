#include "gpu/host/link.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace tandem::host {

TimePoint LinkPacer::reserve(TimePoint now, std::size_t bytes) {
  if (!throttled()) return now;
  const std::lock_guard lock(mutex_);
  const auto busy = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / bytes_per_second_));
  // The very first booking has no idle time to draw credit from.
  const TimePoint earliest = free_at_ == TimePoint{} ? now : now - kCredit;
  free_at_ = std::max(earliest, free_at_) + busy;
  return free_at_;
}

void copy_over_link(LinkPacer& link, void* device, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  if (!link.throttled()) {
    std::memcpy(device, host, bytes);
    return;
  }
  constexpr std::size_t kPiece = std::size_t{512} << 10;
  for (std::size_t done = 0; done < bytes; done += kPiece) {
    const std::size_t piece = std::min(kPiece, bytes - done);
    const TimePoint arrives = link.reserve(SteadyClock().now(), piece);
    std::memcpy(static_cast<std::byte*>(device) + done, static_cast<const std::byte*>(host) + done,
                piece);
    std::this_thread::sleep_until(arrives);
  }
}

}  // namespace tandem::host
