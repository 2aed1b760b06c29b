#include "engine/batching/inbox.h"

#include <algorithm>
#include <utility>

#include "engine/batching/engine_reporter.h"

namespace tandem {

Status Inbox::submit(std::int32_t n, const MakeSequences& make) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) {
      return error(StatusCode::unavailable, "the engine has ended: {}", failure_.message());
    }
    if (draining_) {
      return Status(StatusCode::unavailable, "the engine is draining and takes no new requests");
    }
    const std::size_t waiting = arrivals_.sequences.size() + waiting_;
    if (waiting + static_cast<std::size_t>(n) > static_cast<std::size_t>(max_queue_)) {
      return error(StatusCode::resource_exhausted,
                   "the queue is full: {} continuations wait (max_queue {})", waiting, max_queue_);
    }
    arrivals_.sequences.reserve(arrivals_.sequences.size() + static_cast<std::size_t>(n));
    for (auto& sequence : make(next_arrival_)) arrivals_.sequences.push_back(std::move(sequence));
    next_arrival_ += static_cast<std::uint64_t>(n);
  }
  changed_.notify_one();
  return {};
}

Status Inbox::keep_on_device(const AdapterLease& adapter) {
  std::promise<Status> done;
  std::future<Status> status = done.get_future();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return Status(StatusCode::unavailable, "the server is shutting down");
    arrivals_.keep.push_back({adapter, adapter->home().num_readings(), std::move(done)});
  }
  changed_.notify_one();
  try {
    return status.get();  // the engine thread answers, at its end at the latest
  } catch (const std::future_error&) {
    return {StatusCode::internal, "the server ran out of memory while it loaded the adapter"};
  }
}

void Inbox::tell_news() {
  {
    const std::lock_guard lock(mutex_);
    arrivals_.news = true;
  }
  changed_.notify_one();
}

void Inbox::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

void Inbox::resume() {
  const std::lock_guard lock(mutex_);
  draining_ = stopping_;
}

void Inbox::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    draining_ = true;
  }
  changed_.notify_one();
}

void Inbox::end_if_fatal(const Status& status) {
  if (status.code() == StatusCode::fatal) end(status);
}

void Inbox::end(Status fatal) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = std::move(fatal);
  }
  stop();
}

bool Inbox::is_draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

Status Inbox::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

EngineStats Inbox::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats result = stats_;
  result.waiting += static_cast<std::int32_t>(arrivals_.sequences.size());
  return result;
}

EngineView Inbox::view(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  EngineView view = view_;
  for (const auto& sequence : arrivals_.sequences) add_waiting(*sequence, view);
  view.accepts = !draining_ && failure_.ok();
  view.step_ends_s =
      step_ends_ ? std::max(0.0, seconds_between(now, *step_ends_)) : EngineView{}.step_ends_s;
  return view;
}

void Inbox::publish(const EngineView& view, std::optional<TimePoint> step_ends) {
  const std::lock_guard lock(mutex_);
  view_ = view;
  step_ends_ = step_ends;
}

Inbox::Arrivals Inbox::take() {
  const std::lock_guard lock(mutex_);
  waiting_ += arrivals_.sequences.size();
  return std::exchange(arrivals_, {});
}

bool Inbox::wait(std::optional<Duration> longest) {
  std::unique_lock lock(mutex_);
  const auto news = [this] { return has_news(); };
  if (longest) return changed_.wait_for(lock, *longest, news);
  changed_.wait(lock, news);
  return true;
}

void Inbox::wait_for_stop(Duration longest) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, longest, [this] { return stopping_; });
}

bool Inbox::is_stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void Inbox::publish(const EngineStats& stats) {
  const std::lock_guard lock(mutex_);
  waiting_ = static_cast<std::size_t>(stats.waiting);
  stats_ = stats;
}

}  // namespace tandem
