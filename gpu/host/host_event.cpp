#include "gpu/host/host_event.h"

#include <algorithm>

namespace tandem::host {

std::uint64_t HostEvent::State::take_ticket() {
  const std::lock_guard lock(mutex_);
  return ++taken_;
}

void HostEvent::State::give_back(std::uint64_t ticket) {
  {
    const std::lock_guard lock(mutex_);
    if (taken_ == ticket) --taken_;
  }
  changed_.notify_all();
}

std::uint64_t HostEvent::State::last_ticket() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

void HostEvent::State::pass(std::uint64_t ticket) {
  {
    const std::lock_guard lock(mutex_);
    passed_ = std::max(passed_, ticket);
  }
  changed_.notify_all();
}

bool HostEvent::State::passed(std::uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  return passed_ >= ticket;
}

void HostEvent::State::wait_for(std::uint64_t ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return passed_ >= ticket; });
}

}  // namespace tandem::host
