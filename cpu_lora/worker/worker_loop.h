// The loop of a worker: waits for its doorbell, computes its share, answers. Runs in a process of
// its own (`tandem worker`) or, in tests, in a thread. It is the only writer of its worker slot.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/status.h"
#include "cpu_lora/worker/product.h"
#include "shm/mailbox.h"

namespace tandem {

struct WorkerLoopOptions {
  int worker_slot = 0;
  int cpu = -1;         // shown in the worker slot
  double spin_ms = 20;  // without jobs, or after a wake: spins for so long, then sleeps until woken
  double peer_ms = 50;  // longest wait for the others' part of v, or for weights still being read
  ProductKind product = ProductKind::best;
};

class WorkerLoop {
 public:
  // Takes the worker slot; already_exists if it is taken. `mailbox` and `arena` must outlive the
  // loop.
  static Result<WorkerLoop> create(Mailbox& mailbox, std::span<const std::byte> arena,
                                   const WorkerLoopOptions& options);
  WorkerLoop(WorkerLoop&&) noexcept;
  WorkerLoop& operator=(WorkerLoop&&) noexcept;
  ~WorkerLoop();  // leaves the worker slot

  // Runs until the mailbox says stop, `stop` is true, `alive()`, called now and then, is false (the
  // engine is gone), or the worker slot holds another process's pid.
  void run(const std::atomic<bool>& stop, const std::function<bool()>& alive);

 private:
  struct Impl;
  explicit WorkerLoop(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
