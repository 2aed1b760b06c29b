// The CPU workers of an engine: starts them, watches them and restarts them.
//
// The pool's own thread owns the processes: it alone forks, waits and kills; other threads read the
// results. A worker that ends, or whose heartbeat stops, is replaced after a pause that doubles
// with each death; a worker that keeps dying is given up. Workers that another process started
// (`tandem pin apply`) are watched by their heartbeat and never replaced; if one occupies a worker
// slot of this pool, it stays there.
//
// A worker is run as
//   PROGRAM worker --inbox NAME --outbox NAME --arena NAME --worker-slot I --cpu C --node N
//       --spin-ms X --engine-pid P
// Only the worker writes its worker slot while it lives. Once the worker is dead (reaped, or its
// pid is no process that was run as above), the pool clears state and pid in the worker slot, so
// that quiet() need not wait for a dead worker and another worker can take the slot.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids/ticket.h"
#include "base/status.h"
#include "shm/mailbox.h"

namespace tandem {

// One group: a mailbox, and the node and cpus of its workers.
struct WorkerGroupOptions {
  Mailbox* mailbox = nullptr;  // outlives the pool
  std::string arena;           // region from which they read weights
  int node = -1;
  std::vector<int> cpus;  // one worker is started for each and bound to it; may be empty
};

struct WorkerPoolOptions {
  std::vector<WorkerGroupOptions> groups;
  std::string program;         // its `worker` command is run; empty: this program
  double spin_ms = 20;         // a worker without jobs spins for this long, then sleeps
  double heartbeat_ms = 1000;  // a worker without a heartbeat for this long is stuck and is killed
  double start_ms = 20000;     // time limit for taking its worker slot and reporting that it works
  double first_pause_ms = 50;  // before a dead worker is restarted; doubles up to last_pause_ms
  double last_pause_ms = 10000;
  int max_deaths = 8;  // in a row, each within a minute of the start, until it is given up
  // The cpus that this process may use can change while it runs (a container's cpuset). The pool's
  // thread calls `allowed` regularly; null: it checks nothing. If the allowed cpus have changed,
  // `place` receives each group's cpus by worker slot and the allowed cpus, and returns the new
  // cpus of the workers. It must replace each cpu that is no longer allowed; -1: the worker slot
  // has no cpu.
  using CpusOfGroups = std::vector<std::vector<int>>;
  double allowed_every_ms = 1000;
  std::function<std::vector<int>()> allowed;
  std::function<CpusOfGroups(const CpusOfGroups& now, const std::vector<int>& allowed)> place;
};

struct WorkerStatus {
  int group = 0;
  int worker_slot = 0;
  int pid = 0;   // 0: not running
  int cpu = -1;  // the cpu that it is bound to
  bool ours = false;
  bool left_out = false;
  std::uint64_t restarts = 0;
  std::uint64_t jobs = 0;
  double busy_s = 0;
  std::string last_end;  // "signal 9 (Killed)", "exit status 3", and the reason; empty: never
};

class WorkerPool {
 public:
  // Starts all workers and returns without waiting for them. A worker that does not start is no
  // error here; status() reports it. invalid_argument: more cpus than the mailbox has worker slots,
  // or a cpu named twice. Clears the stop flag of an earlier pool.
  static Result<std::unique_ptr<WorkerPool>> start(const WorkerPoolOptions& options);
  // Ends the workers: first by the stop flag, then with SIGKILL; workers that are still starting
  // get SIGKILL at once. No worker is left when it returns. Call it before the regions that workers
  // map are destroyed.
  virtual ~WorkerPool() = default;

  // Mask of a group's worker slots whose workers are up and may be given jobs. Any thread.
  virtual std::uint64_t live(int group) const = 0;

  // Mask of the worker slots that live() has returned and whose process has not ended since; the
  // slot's own content is not trusted for this. Any thread.
  virtual std::uint64_t held(int group) const = 0;

  // Makes a group quiet after a deadline passed. Workers that have not finished job `sequence`
  // within a short grace period are killed (and restarted later, unless another process started
  // them). Returns at once; quiet() becomes true when it is done. Any thread.
  virtual void clear(int group, std::uint64_t sequence) = 0;

  // Status of every worker that should run and of every worker slot that another process took. Any
  // thread.
  virtual std::vector<WorkerStatus> status() const = 0;
  // Waits until every worker that should run (all except those given up) is live, or until the
  // timeout. For tests and benchmarks.
  virtual bool wait_until_live(double timeout_s) const = 0;
};

}  // namespace tandem
