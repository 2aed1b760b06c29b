// A point in a stream's order: recording takes a ticket when enqueued; the event passes it later.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "gpu/device.h"

namespace tandem::host {

class HostEvent final : public Event {
 public:
  // Outlives the event while operations that name it are queued. Thread-safe.
  class State {
   public:
    std::uint64_t take_ticket();
    void give_back(std::uint64_t ticket);  // the last one taken, which will never pass
    std::uint64_t last_ticket() const;
    void pass(std::uint64_t ticket);
    bool passed(std::uint64_t ticket) const;
    void wait_for(std::uint64_t ticket);
    std::chrono::steady_clock::time_point passed_at() const;  // the most recent time

   private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t taken_ = 0;
    std::uint64_t passed_ = 0;  // the latest ticket reached; recordings may pass out of order
    std::chrono::steady_clock::time_point passed_at_;
  };

  bool passed() const override { return state_->passed(state_->last_ticket()); }
  void synchronize() override { state_->wait_for(state_->last_ticket()); }
  double seconds_since(const Event& earlier) const override;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace tandem::host
