// Delivers SIGINT, SIGTERM and SIGHUP as ordinary events.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

// Create it before any other thread, so that all threads inherit the blocked signals. One thread of
// its own reads them from a signalfd; no handler runs, so there is no unsafe call in one. The first
// signal is an event; the second ends the process at once, with 128 + its number. That thread waits
// for no other, so exit_after() works whatever they do. If SIGHUP was ignored at the start (nohup),
// it stays ignored.
class StopSignals {
 public:
  static Result<std::unique_ptr<StopSignals>> create();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // While false (the initial value), the first signal ends the process at once, because there is
  // nothing to finish yet.
  void set_graceful(bool graceful);
  bool stop_requested() const;
  int signal_number() const;          // of the first signal; 0: none yet
  int exit_status(int status) const;  // 128 + the first signal's number, or `status`
  void wait();                        // until the first signal
  bool wait_for(Duration timeout);    // true: there was a signal

  // Ends the process with status 1 if it still runs after this time, even if all its threads hang.
  // Prints a message if standard error takes it without blocking. The last call counts.
  void exit_after(Duration timeout);
  // Call it once all work is finished: from then on exit_after() ends the process with `status`.
  void set_late_status(int status);

 private:
  StopSignals() = default;
  void watch();

  int signal_fd_ = -1;
  int quit_fd_ = -1;   // the destructor wakes the watching thread through it
  int timer_fd_ = -1;  // the timer of exit_after()
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool graceful_ = false;  // guarded by mutex_
  int first_ = 0;          // guarded by mutex_
  std::atomic<int> late_status_{1};
  std::thread watcher_;  // the only reader of the descriptors
};

}  // namespace tandem
