// Threads for connections: made when a connection finds none idle, gone after a while unused.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace tandem {

// A connection may last for minutes, so a job never waits for another to end: with every thread
// busy and `max_threads` running, run() says no instead of queueing.
class ConnectionThreads {
 public:
  ConnectionThreads(int max_threads, Duration idle_timeout);
  ~ConnectionThreads();  // shutdown()

  // False: at the limit, after shutdown(), or no thread could be made; `job` was not run.
  // Jobs must not throw. Thread-safe.
  bool run(const std::function<void()>& job);
  // Runs what was accepted to its end and joins. Idempotent.
  void shutdown();

 private:
  using Threads = std::list<std::thread>;
  void work(Threads::iterator self);
  static void join(Threads threads);

  const int max_threads_;
  const Duration idle_timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;  // each has an idle thread on its way to it
  Threads threads_;
  Threads finished_;  // left their loop; joined by the next call
  int idle_ = 0;
  bool stopping_ = false;
};

}  // namespace tandem
