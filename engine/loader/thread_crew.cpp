#include "engine/loader/thread_crew.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

namespace tandem {

ThreadCrew::ThreadCrew(int helpers) {
  for (int i = 0; i < helpers; ++i) {
    try {
      threads_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {  // those that are there do it all
      break;
    }
  }
}

ThreadCrew::~ThreadCrew() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

int ThreadCrew::helpers_for_machine() {
  constexpr int kMost = 15;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) - 2, 1, kMost);
}

void ThreadCrew::run(std::size_t count, const std::function<void(std::size_t)>& body) {
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    open_ = true;
    ++round_;
  }
  changed_.notify_all();
  work();
  std::unique_lock lock(mutex_);
  open_ = false;
  idle_.wait(lock, [this] { return busy_ == 0; });
}

void ThreadCrew::help() {
  pthread_setname_np(pthread_self(), "adapter read");
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || (open_ && round_ != seen); });
    if (stopping_) return;
    seen = round_;
    ++busy_;
    lock.unlock();
    work();
    lock.lock();
    if (--busy_ == 0) idle_.notify_one();
  }
}

void ThreadCrew::work() {
  for (std::size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) (*body_)(i);
}

}  // namespace tandem
