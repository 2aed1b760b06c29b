#include "cpu_lora/worker_pool/process_wait.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem {

Result<ProcessWait> ProcessWait::create() {
  const int event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) return errno_status("eventfd", errno);
  return ProcessWait(event);
}

ProcessWait::ProcessWait(ProcessWait&& other) noexcept : event_(std::exchange(other.event_, -1)) {}

ProcessWait& ProcessWait::operator=(ProcessWait&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

ProcessWait::~ProcessWait() {
  if (event_ >= 0) ::close(event_);
}

void ProcessWait::wake() {
  const std::uint64_t one = 1;
  // write() fails only if the counter would overflow; then a wake is pending already.
  (void)!::write(event_, &one, sizeof one);
}

void ProcessWait::wait(std::span<const int> descriptors, Duration timeout) {
  std::vector<pollfd> events{{.fd = event_, .events = POLLIN, .revents = 0}};
  for (const int each : descriptors) events.push_back({.fd = each, .events = POLLIN, .revents = 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  const int ready = ::poll(events.data(), events.size(),
                           static_cast<int>(std::clamp<decltype(left)>(left, 0, 60'000)));
  std::uint64_t count = 0;
  if (ready > 0 && events[0].revents != 0) (void)!::read(event_, &count, sizeof count);
}

}  // namespace tandem
