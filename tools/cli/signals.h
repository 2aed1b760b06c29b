// SIGINT, SIGTERM and SIGHUP as ordinary events.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

// Make it before any other thread, so that all of them inherit the blocked signals. A thread of
// its own reads them from a signalfd: no handler runs, so nothing unsafe can be called in one. The
// first signal is an event; the second ends the process at once, with 128 + its number. That thread
// waits for nobody: whatever the others do, exit_after() holds. SIGHUP that is ignored at the start
// (nohup) stays so.
class StopSignals {
 public:
  static Result<std::unique_ptr<StopSignals>> create();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // While false (as it is at first), the first signal ends the process at once: there is nothing
  // yet to finish.
  void set_graceful(bool graceful);
  bool stop_requested() const;
  int signal_number() const;          // of the first signal; 0: none yet
  int exit_status(int status) const;  // 128 + the first signal's number; without one, `status`
  void wait();                        // until the first signal
  bool wait_for(Duration timeout);    // true: there was a signal

  // Ends the process with 1 when this long has passed and it still runs, whatever its threads hang
  // in: says so on standard error, if that takes it without waiting. The last call counts.
  void exit_after(Duration timeout);
  // All that was to be finished is: from now on exit_after() ends the process with `status`.
  void set_late_status(int status);

 private:
  StopSignals() = default;
  void watch();

  int signal_fd_ = -1;
  int quit_fd_ = -1;   // the destructor wakes the watching thread through it
  int timer_fd_ = -1;  // of exit_after()
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool graceful_ = false;  // guarded by mutex_
  int first_ = 0;          // guarded by mutex_
  std::atomic<int> late_status_{1};
  std::thread watcher_;  // owns the reading end
};

}  // namespace tandem
