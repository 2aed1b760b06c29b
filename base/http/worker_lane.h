// A queue of jobs and the threads that take them, in the order of arrival.
#pragma once

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
  ~WorkerLane();  // stop()

  void start(int threads);
  // False: stopped; `job` is dropped. Jobs must not throw.
  bool run(std::function<void()> job);
  // Drops what waits, ends what runs, and joins. Idempotent; from one thread.
  void stop();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;  // guarded by mutex_
  bool stopping_ = false;                   // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace tandem
