// Cores that CPU workers and the threads that read adapters from disk both have (ReaderPlan): each
// side says when it needs them, and makes room for the other. Who waits for its core waits for some
// milliseconds, as long as a whole step takes.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace tandem {

class SharedCores {
 public:
  // So many bytes more are to be read, or fewer: while there are any, workers beside readers are
  // handed nothing.
  void expect(std::int64_t bytes) { to_read_.fetch_add(bytes, std::memory_order_relaxed); }
  std::int64_t to_read() const { return to_read_.load(std::memory_order_relaxed); }

  // A step of which workers compute something begins, or has ended: while there is one, nobody
  // reads on the other workers' cores.
  void step_begins() { steps_.fetch_add(1, std::memory_order_relaxed); }
  void step_ended() { steps_.fetch_sub(1, std::memory_order_relaxed); }
  bool are_computing() const { return steps_.load(std::memory_order_relaxed) > 0; }

 private:
  // relaxed: they publish nothing
  std::atomic<std::int64_t> to_read_{0};
  std::atomic<std::int32_t> steps_{0};
};

}  // namespace tandem
