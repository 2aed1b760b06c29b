// The context of a host operation: its stream's own state and the device's state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory/aligned_bytes.h"
#include "base/onednn/matmul.h"
#include "gpu/host/context/thread_pool.h"

namespace tandem::host {

// Scratch that one worker of the pool uses while it works for one stream; on its own cache lines.
struct alignas(64) WorkerScratch {
  AlignedBytes tile;                 // one tile or row of results
  AlignedBytes operand;              // widened weights, queries
  MatmulScratch matmul;              // oneDNN's scratch
  std::vector<std::int32_t> counts;  // sampling: per token, all zero between rows
};

struct OpContext {
  ThreadPool* pool = nullptr;
  MatmulCache* matmuls = nullptr;
  // True if the CPU multiplies bf16 matrices much faster than f32 ones (AMX).
  bool native_bf16 = false;
  std::vector<WorkerScratch> workers;  // one per thread of the pool
  AlignedBytes ordered;                // activations in the order of a weight's places
  AlignedBytes rows;                   // activations as float
  AlignedBytes partial;                // results that tasks leave for a second pass

  // Runs body(task, worker) for every task: on the pool if the tasks together access enough `bytes`
  // to justify waking it (which costs a few microseconds), otherwise on this thread.
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
