#include "base/http/worker_lane.h"

#include <utility>

namespace tandem {

WorkerLane::~WorkerLane() {
  stop();
}

void WorkerLane::start(int threads, std::function<void()> at_rest) {
  at_rest_ = std::move(at_rest);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

bool WorkerLane::run(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

void WorkerLane::work() {
  std::unique_lock lock(mutex_);
  const auto is_called = [this] { return stopping_ || !jobs_.empty(); };
  for (bool rests = true;;) {
    if (rests || !at_rest_) {
      changed_.wait(lock, is_called);
    } else if (!changed_.wait_for(lock, kRestAfter, is_called)) {
      rests = true;
      lock.unlock();
      at_rest_();
      lock.lock();
      continue;
    }
    if (stopping_) return;
    rests = false;
    {
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }
    lock.lock();
  }
}

void WorkerLane::stop() {
  std::deque<std::function<void()>> dropped;  // destroyed after the lock is released
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(jobs_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace tandem
