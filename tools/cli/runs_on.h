// Ties a thread of a measurement to a cpu.
#pragma once

#include <pthread.h>
#include <sched.h>

namespace tandem {

// The calling thread runs on one cpu until this goes.
class RunsOn {
 public:
  explicit RunsOn(int cpu) {
    if (cpu < 0 || pthread_getaffinity_np(pthread_self(), sizeof before_, &before_) != 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(cpu), &set);
    // A failure leaves the thread where the kernel likes it: slower, not wrong.
    moved_ = pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
  }
  ~RunsOn() {
    if (moved_) pthread_setaffinity_np(pthread_self(), sizeof before_, &before_);
  }
  RunsOn(const RunsOn&) = delete;
  RunsOn& operator=(const RunsOn&) = delete;

 private:
  cpu_set_t before_{};
  bool moved_ = false;
};

}  // namespace tandem
