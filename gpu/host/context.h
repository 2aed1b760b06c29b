// What an operation of the host device computes with: its stream's own state and the device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "gpu/host/onednn_matmul.h"
#include "gpu/host/thread_pool.h"

namespace tandem::host {

// Memory that an operation needs while it runs; grows to the largest request and stays.
class Scratch {
 public:
  // At least `count` elements, 64-byte aligned, contents undefined; void after the next get().
  template <typename T>
  T* get(std::size_t count) {
    return static_cast<T*>(reserve(count * sizeof(T)));
  }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  void* reserve(std::size_t bytes);

  std::unique_ptr<void, Free> data_;
  std::size_t bytes_ = 0;
};

// Scratch of one worker of the pool while it works for one stream, on its own cache lines.
struct alignas(64) WorkerScratch {
  Scratch tile;                      // one tile or row of results
  Scratch operand;                   // widened weights, queries
  Scratch matmul;                    // the library's own
  std::vector<std::int32_t> counts;  // sampling: per token, all zero between rows
};

struct OpContext {
  ThreadPool* pool = nullptr;
  MatmulCache* matmuls = nullptr;
  // The CPU multiplies bf16 matrices much faster than f32 ones (AMX).
  bool native_bf16 = false;
  std::vector<WorkerScratch> workers;  // one per thread of the pool
  Scratch rows;                        // activations as float
  Scratch partial;                     // what tasks leave for a second pass

  // Runs body(task, worker) for every task: over the pool if `bytes`, what all of them read and
  // write, are worth waking it (it costs a few microseconds), else here.
  template <typename Body>
  void for_each(std::int64_t num_tasks, std::int64_t bytes, Body&& body) {
    constexpr std::int64_t kWorthwhile = 64 << 10;
    if (bytes >= kWorthwhile) {
      pool->parallel_for(num_tasks, body);
    } else {
      for (std::int64_t task = 0; task < num_tasks; ++task) body(task, 0);
    }
  }
};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace tandem::host
