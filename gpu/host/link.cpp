#include "gpu/host/link.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace tandem::host {

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
