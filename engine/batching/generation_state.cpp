#include "engine/batching/generation_state.h"

namespace tandem {

void GenerationState::push(OutputDelta delta, const GenerationStats& stats) {
  {
    const std::lock_guard lock(mutex_);
    if (delta.finish != FinishReason::none) --unfinished_;
    deltas_.push_back(std::move(delta));
    if (max_unread_ > 0 && deltas_.size() > max_unread_) {
      behind_.store(true, std::memory_order_relaxed);
    }
    stats_ = stats;
  }
  news_.notify_one();
  const std::lock_guard lock(tell_mutex_);
  if (tell_) tell_();
}

void GenerationState::on_news(std::function<void()> tell) {
  const std::lock_guard telling(tell_mutex_);
  tell_ = std::move(tell);
  if (!tell_) return;
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    any = !deltas_.empty() || unfinished_ == 0;
  }
  if (any) tell_();
}

std::optional<OutputDelta> GenerationState::next(Duration timeout) {
  std::unique_lock lock(mutex_);
  const auto has_news = [this] { return !deltas_.empty() || unfinished_ == 0; };
  if (!news_.wait_for(lock, timeout, has_news) || deltas_.empty()) return std::nullopt;
  OutputDelta delta = std::move(deltas_.front());
  deltas_.pop_front();
  if (deltas_.size() <= max_unread_ / 2) behind_.store(false, std::memory_order_relaxed);
  return delta;
}

bool GenerationState::done() const {
  const std::lock_guard lock(mutex_);
  return unfinished_ == 0 && deltas_.empty();
}

GenerationStats GenerationState::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace tandem
