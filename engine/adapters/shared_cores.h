// Coordinates the cores that CPU workers share with the threads that read adapters from disk
// (ReaderPlan): each side says when it needs them, and the other makes room. A thread that waits
// for its core waits for some milliseconds, as long as a whole step takes.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace tandem {

class SharedCores {
 public:
  // Adds to the number of bytes to read, or subtracts from it. While it is above 0, workers beside
  // readers get no jobs.
  void expect(std::int64_t bytes) { to_read_.fetch_add(bytes, std::memory_order_relaxed); }
  std::int64_t to_read() const { return to_read_.load(std::memory_order_relaxed); }

  // A step begins, or has ended, that workers compute a part of. While there is one, no thread
  // reads on the cores of the other workers.
  void step_begins() { steps_.fetch_add(1, std::memory_order_relaxed); }
  void step_ended() { steps_.fetch_sub(1, std::memory_order_relaxed); }
  bool are_computing() const { return steps_.load(std::memory_order_relaxed) > 0; }

 private:
  // relaxed: they publish nothing
  std::atomic<std::int64_t> to_read_{0};
  std::atomic<std::int32_t> steps_{0};
};

}  // namespace tandem
