// Threads that are kept ready for short work: waking them costs less than starting them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem {

class ThreadCrew {
 public:
  // Beside the thread that calls run(). Where there is no thread to be had, fewer.
  explicit ThreadCrew(int helpers);
  ~ThreadCrew();
  ThreadCrew(const ThreadCrew&) = delete;
  ThreadCrew& operator=(const ThreadCrew&) = delete;

  // For copying from the page cache: more do not get more out of a machine's memory, and one core
  // is left to who waits for what is read.
  static int helpers_for_machine();

  // Calls body(i) once for every i in [0, count), on this thread and the others, taken in order: a
  // body may wait for those of smaller indices. Returns when all have returned; who has not woken
  // up by then is not waited for. One call at a time. `body` must not throw.
  void run(std::size_t count, const std::function<void(std::size_t)>& body);

 private:
  void help();
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;  // open_, round_ or stopping_
  std::condition_variable idle_;
  // All but next_ are guarded by mutex_; body_ and count_ stay as they are while a round is open or
  // anybody is busy.
  const std::function<void(std::size_t)>* body_ = nullptr;
  std::size_t count_ = 0;
  std::uint64_t round_ = 0;
  bool open_ = false;  // helpers may join
  int busy_ = 0;       // helpers that have
  bool stopping_ = false;
  // Relaxed: each index is taken once whatever the order; mutex_ publishes what the bodies wrote.
  std::atomic<std::size_t> next_{0};
  std::vector<std::thread> threads_;
};

}  // namespace tandem
