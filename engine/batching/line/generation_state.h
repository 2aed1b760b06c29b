// The channel from the engine thread, which writes deltas, to the reader of one request.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/service/generation.h"

namespace tandem {

// Shared by both sides, so that either may end first. Thread-safe.
class GenerationState {
 public:
  // `max_unread`: see GenerationRequest.
  explicit GenerationState(std::int32_t n, std::int32_t max_unread = 0)
      : max_unread_(static_cast<std::size_t>(max_unread == 0 ? 0 : std::max(max_unread, 2 * n))),
        ends_(static_cast<std::size_t>(n), End::open),
        unfinished_(n) {}

  // Sets the earlier output of the continuations, one delta each, and the statistics so far. Call
  // it before others have the state. These deltas do not count as unread.
  void take_up(std::vector<OutputDelta> before, const GenerationStats& stats);

  // The engine's side. Neither throws: a delta that there is no memory for is lost (below).
  void push(OutputDelta delta, const GenerationStats& stats) noexcept;
  // Ends a continuation without a delta, if it has not ended: after all earlier deltas its reader
  // gets an error, that the server ran out of memory. Does not allocate.
  void lose(std::int32_t index) noexcept;
  // True if more deltas wait for the reader than allowed. Relaxed, as cancelled(): a step late is
  // harmless.
  bool reader_is_behind() const { return behind_.load(std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // The reader's side; see Generation.
  std::optional<OutputDelta> next(Duration timeout);
  bool done() const;
  // An empty function: after it returns nothing is called any more.
  void on_news(std::function<void()> tell);
  GenerationStats stats() const;
  // Relaxed: the flag carries no data; the engine thread reads it before each step.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

 private:
  enum class End : std::uint8_t { open, told, lost };
  bool has_news() const { return !deltas_.empty() || lost_ > 0 || unfinished_ == 0; }
  OutputDelta take_lost();
  void tell() noexcept;

  const std::size_t max_unread_;  // 0: no bound
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> behind_{false};
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::deque<OutputDelta> deltas_;  // guarded by mutex_, like all below
  std::vector<End> ends_;           // of each continuation
  std::int32_t unfinished_;         // number of open ones
  std::int32_t lost_ = 0;           // number of lost ones whose reader has no error yet
  GenerationStats stats_;
  std::mutex tell_mutex_;       // held during the call; never taken under mutex_
  std::function<void()> tell_;  // guarded by tell_mutex_
};

// The reader's handle: destroying it before the end cancels the request.
class GenerationHandle final : public Generation {
 public:
  explicit GenerationHandle(std::shared_ptr<GenerationState> state) : state_(std::move(state)) {}
  ~GenerationHandle() override {
    state_->cancel();
    state_->on_news({});
  }
  GenerationHandle(const GenerationHandle&) = delete;
  GenerationHandle& operator=(const GenerationHandle&) = delete;

  std::optional<OutputDelta> next(Duration timeout) override { return state_->next(timeout); }
  bool done() const override { return state_->done(); }
  void on_news(std::function<void()> tell) override { state_->on_news(std::move(tell)); }
  GenerationStats stats() const override { return state_->stats(); }
  void cancel() override { state_->cancel(); }

 private:
  std::shared_ptr<GenerationState> state_;
};

}  // namespace tandem
