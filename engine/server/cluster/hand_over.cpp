#include "engine/server/cluster/hand_over.h"

#include <utility>

namespace tandem {

ApiError moved_error() {
  return {503, "This engine is handing its requests over; ask another one", {}, "moved", 0};
}

ApiError cut_error() {
  return {503,
          "The server is shutting down, and this answer was not complete within drain_timeout_s; "
          "ask again",
          {},
          "draining",
          1};
}

void HandOver::ask() {
  asked_.store(true, std::memory_order_release);
  wake_all();
}

void HandOver::cut() {
  cut_.store(true, std::memory_order_release);
  wake_all();
}

void HandOver::wake_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, wake] : wakes_) wake();
}

std::shared_ptr<void> HandOver::watch(std::function<void()> wake) {
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_++;
    wakes_.emplace(id, std::move(wake));
  }
  // If the handle's allocation fails, its constructor calls the deleter, so nothing leaks.
  return {this, [id](HandOver* from) {
            const std::lock_guard lock(from->mutex_);
            from->wakes_.erase(id);
          }};
}

}  // namespace tandem
