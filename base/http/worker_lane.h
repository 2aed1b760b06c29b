// A queue of jobs and the threads that run them, in the order of arrival.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem {

// Thread-safe.
class WorkerLane {
 public:
  ~WorkerLane();  // calls stop()

  // `at_rest`: called by a thread of the lane if jobs have run and then none has come for
  // kRestAfter. It must not throw.
  void start(int threads, std::function<void()> at_rest = {});
  // False if stopped; `job` is dropped. Jobs must not throw.
  bool run(std::function<void()> job);
  // Drops waiting jobs, finishes running ones, and joins. Idempotent; called from one thread.
  void stop();

  static constexpr std::chrono::milliseconds kRestAfter{500};

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;  // guarded by mutex_
  bool stopping_ = false;                   // guarded by mutex_
  std::function<void()> at_rest_;           // set before the threads start
  std::vector<std::thread> threads_;
};

}  // namespace tandem
