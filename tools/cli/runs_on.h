// Ties a thread of a measurement to a cpu.
#pragma once

#include <vector>

#include "base/threads/thread_cpus.h"

namespace tandem {

// Keeps the calling thread on one cpu until it is destroyed. Does nothing if `cpu` is negative or
// if the thread's present cpus, to which it would have to return, cannot be read.
class RunsOn {
 public:
  explicit RunsOn(int cpu) {
    if (cpu >= 0) before_ = cpus_of_thread();
    if (!before_.empty()) pin_this_thread({&cpu, 1}, "a measuring thread");
  }
  ~RunsOn() {
    if (!before_.empty()) pin_this_thread(before_, "a measuring thread");
  }
  RunsOn(const RunsOn&) = delete;
  RunsOn& operator=(const RunsOn&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace tandem
