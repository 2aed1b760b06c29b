// Waits for the end of any of several processes, for a timeout, or for another thread's call.
#pragma once

#include <span>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

// One thread calls wait(); any thread may call wake(). Owns its descriptor; move-only.
class ProcessWait {
 public:
  static Result<ProcessWait> create();
  ProcessWait(ProcessWait&& other) noexcept;
  ProcessWait& operator=(ProcessWait&& other) noexcept;
  ~ProcessWait();

  // Ends the current wait, or the next one if there is none.
  void wake();
  // Returns when one of the descriptors is readable (ChildProcess::descriptor; negative ones are
  // skipped), when wake() was called, or after the timeout.
  void wait(std::span<const int> descriptors, Duration timeout);

 private:
  explicit ProcessWait(int event) : event_(event) {}
  int event_ = -1;
};

}  // namespace tandem
