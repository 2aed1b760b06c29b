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
    passed_at_ = std::chrono::steady_clock::now();
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

std::chrono::steady_clock::time_point HostEvent::State::passed_at() const {
  const std::lock_guard lock(mutex_);
  return passed_at_;
}

double HostEvent::seconds_since(const Event& earlier) const {
  const auto& other = static_cast<const HostEvent&>(earlier);
  return std::chrono::duration<double>(state_->passed_at() - other.state_->passed_at()).count();
}

}  // namespace tandem::host
