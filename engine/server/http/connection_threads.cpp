#include "engine/server/http/connection_threads.h"

#include <system_error>
#include <utility>

namespace tandem {

ConnectionThreads::ConnectionThreads(int max_threads, Duration idle_timeout)
    : max_threads_(max_threads), idle_timeout_(idle_timeout) {}

ConnectionThreads::~ConnectionThreads() {
  shutdown();
}

bool ConnectionThreads::run(const std::function<void()>& job) {
  Threads finished;
  bool accepted = false;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(finished_);
    if (!stopping_ && static_cast<std::size_t>(idle_) > jobs_.size()) {
      jobs_.push_back(job);
      accepted = true;
    } else if (!stopping_ && static_cast<int>(threads_.size()) < max_threads_) {
      threads_.emplace_back();
      const auto self = std::prev(threads_.end());
      jobs_.push_back(job);
      ++idle_;  // for the job just queued; the new thread starts as an idle one
      try {
        *self = std::thread([this, self] { work(self); });
        accepted = true;
      } catch (const std::system_error&) {  // no more threads: the machine's limit, not ours
        --idle_;
        jobs_.pop_back();
        threads_.erase(self);
      }
    }
  }
  if (accepted) changed_.notify_one();
  join(std::move(finished));
  return accepted;
}

void ConnectionThreads::work(Threads::iterator self) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait_for(lock, idle_timeout_, [&] { return !jobs_.empty() || stopping_; });
    --idle_;
    if (jobs_.empty()) break;
    {
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }
    lock.lock();
    ++idle_;
  }
  finished_.splice(finished_.end(), threads_, self);
  lock.unlock();
  changed_.notify_all();
}

void ConnectionThreads::shutdown() {
  Threads finished;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return threads_.empty(); });
    finished.swap(finished_);
  }
  join(std::move(finished));
}

void ConnectionThreads::join(Threads threads) {
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tandem
