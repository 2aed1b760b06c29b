// Waiting for the end of any of several processes, for a time, or for another thread's call.
#pragma once

#include <span>

#include "base/clock.h"
#include "base/status.h"

namespace tandem {

// wait() is for one thread, wake() for any. Owns its descriptor; move-only.
class ProcessWait {
 public:
  static Result<ProcessWait> create();
  ProcessWait(ProcessWait&& other) noexcept;
  ProcessWait& operator=(ProcessWait&& other) noexcept;
  ~ProcessWait();

  // Ends the wait under way, or the next one.
  void wake();
  // Until one of the descriptors is readable (ChildProcess::descriptor; negative ones are skipped),
  // wake() was called, or the time is over.
  void wait(std::span<const int> descriptors, Duration timeout);

 private:
  explicit ProcessWait(int event) : event_(event) {}
  int event_ = -1;
};

}  // namespace tandem
