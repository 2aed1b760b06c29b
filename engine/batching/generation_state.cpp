#include "engine/batching/generation_state.h"

namespace tandem {

void GenerationState::push(OutputDelta delta, const GenerationStats& stats) {
  {
    const std::lock_guard lock(mutex_);
    if (delta.finish != FinishReason::none) --unfinished_;
    deltas_.push_back(std::move(delta));
    stats_ = stats;
  }
  news_.notify_one();
}

std::optional<OutputDelta> GenerationState::next(Duration timeout) {
  std::unique_lock lock(mutex_);
  const auto has_news = [this] { return !deltas_.empty() || unfinished_ == 0; };
  if (!news_.wait_for(lock, timeout, has_news) || deltas_.empty()) return std::nullopt;
  OutputDelta delta = std::move(deltas_.front());
  deltas_.pop_front();
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
