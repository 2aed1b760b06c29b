#include "engine/batching/line/generation_state.h"

#include <algorithm>
#include <exception>

namespace tandem {

void GenerationState::take_up(std::vector<OutputDelta> before, const GenerationStats& stats) {
  const std::lock_guard lock(mutex_);
  stats_ = stats;
  for (OutputDelta& delta : before) {
    if (delta.finish != FinishReason::none) {
      ends_[static_cast<std::size_t>(delta.index)] = End::told;
      --unfinished_;
    }
    deltas_.push_back(std::move(delta));
  }
}

void GenerationState::push(OutputDelta delta, const GenerationStats& stats) noexcept {
  const std::int32_t index = delta.index;
  try {
    const std::lock_guard lock(mutex_);
    End& end = ends_[static_cast<std::size_t>(index)];
    if (end != End::open) return;
    const bool is_last = delta.finish != FinishReason::none;
    stats_ = stats;
    deltas_.push_back(std::move(delta));
    if (is_last) {
      end = End::told;
      --unfinished_;
    }
    if (max_unread_ > 0 && deltas_.size() > max_unread_) {
      behind_.store(true, std::memory_order_relaxed);
    }
  } catch (const std::exception&) {
    return lose(index);
  }
  tell();
}

void GenerationState::lose(std::int32_t index) noexcept {
  {
    const std::lock_guard lock(mutex_);
    End& end = ends_[static_cast<std::size_t>(index)];
    if (end != End::open) return;
    end = End::lost;
    --unfinished_;
    ++lost_;
  }
  tell();
}

void GenerationState::tell() noexcept {
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
    any = has_news();
  }
  if (any) tell_();
}

std::optional<OutputDelta> GenerationState::next(Duration timeout) {
  std::unique_lock lock(mutex_);
  if (!news_.wait_for(lock, timeout, [this] { return has_news(); })) return std::nullopt;
  if (deltas_.empty() && lost_ > 0) return take_lost();
  if (deltas_.empty()) return std::nullopt;
  OutputDelta delta = std::move(deltas_.front());
  deltas_.pop_front();
  if (deltas_.size() <= max_unread_ / 2) behind_.store(false, std::memory_order_relaxed);
  return delta;
}

// Runs on the reader's thread and uses its memory. Throws if there is none, and may be called
// again.
OutputDelta GenerationState::take_lost() {
  const auto lost = std::find(ends_.begin(), ends_.end(), End::lost);
  OutputDelta delta;
  delta.index = static_cast<std::int32_t>(lost - ends_.begin());
  delta.finish = FinishReason::failed;
  delta.error = Status(StatusCode::internal,
                       "the server ran out of memory while it computed this answer; ask again, or "
                       "for less at once");
  *lost = End::told;
  --lost_;
  return delta;
}

bool GenerationState::done() const {
  const std::lock_guard lock(mutex_);
  return unfinished_ == 0 && lost_ == 0 && deltas_.empty();
}

GenerationStats GenerationState::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace tandem
