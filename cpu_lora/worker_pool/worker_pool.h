// The CPU workers of an engine: starts them, watches them, starts them again.
//
// One thread of its own owns the processes; it forks, waits and kills, and everything else here is
// read by others. A worker that ends, or whose heartbeat stands still, is replaced after a pause
// that doubles from death to death; one that keeps dying is left out. Workers that somebody else
// started (`tandem pin apply`) are watched by their heartbeat and never replaced; one that keeps a
// worker slot of ours is left there.
//
// A worker is run as
//   PROGRAM worker --inbox NAME --outbox NAME --arena NAME --seat I --cpu C --node N
//   --spin-ms X
//                  --engine-pid P
// The worker slot is its own to write. The pool writes into it once the worker is dead (reaped, or
// its pid is no process that was run as above): it empties it, state and pid, so that quiet() need
// not wait for the dead and another may take it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/ticket.h"
#include "shm/mailbox.h"

namespace tandem {

// One group: a mailbox, and where its workers belong.
struct WorkerGroupOptions {
  Mailbox* mailbox = nullptr;  // outlives the pool
  std::string arena;           // region that they read weights from
  int node = -1;
  std::vector<int> cpus;  // a worker for each, bound to it; may be empty
};

struct WorkerPoolOptions {
  std::vector<WorkerGroupOptions> groups;
  std::string program;         // whose `worker` command is run; empty: this very program
  double spin_ms = 20;         // a worker without jobs spins for this long, then sleeps
  double heartbeat_ms = 1000;  // without one for so long it is stuck, and killed
  double start_ms = 20000;     // it has so long to take its worker slot and say that it works
  double first_pause_ms = 50;  // before a dead worker is started again; doubles up to last_pause_ms
  double last_pause_ms = 10000;
  int max_deaths = 8;  // in a row, each within a minute of its start: it is left out
  // What this process may run on can change while it runs (a container's cpuset). `allowed` is
  // asked every so often, by the pool's thread; null: nothing is looked at. Where it has changed,
  // `place` is told of each group's cpus by worker slot and of what is allowed, and returns where
  // the workers go: a cpu that is no longer allowed is to be replaced; -1: by none.
  using CpusOfGroups = std::vector<std::vector<int>>;
  double allowed_every_ms = 1000;
  std::function<std::vector<int>()> allowed;
  std::function<CpusOfGroups(const CpusOfGroups& now, const std::vector<int>& allowed)> place;
};

struct WorkerStatus {
  int group = 0;
  int worker_slot = 0;
  int pid = 0;   // 0: not running
  int cpu = -1;  // that it is bound to
  bool ours = false;
  bool left_out = false;
  std::uint64_t restarts = 0;
  std::uint64_t jobs = 0;
  double busy_s = 0;
  std::string last_end;  // "signal 9 (Killed)", "exit status 3", and why; empty: never
};

class WorkerPool {
 public:
  // Starts all workers and returns without waiting for them. Never fails for a worker's sake: that
  // is a matter of status(). invalid_argument: more cpus than the mailbox has worker slots, or one
  // named twice. Takes back an earlier pool's stop flag.
  static Result<std::unique_ptr<WorkerPool>> start(const WorkerPoolOptions& options);
  // Ends the workers: politely, then with SIGKILL, and those that are still starting with SIGKILL
  // at once; none is left when it returns. Before the regions that workers map are taken away.
  virtual ~WorkerPool() = default;

  // The worker slots of a group whose workers are up and may be given jobs. Any thread.
  virtual std::uint64_t live(int group) const = 0;

  // The worker slots that live() told of and whose process has not ended since: what a worker slot
  // says of its process is not to be trusted. Any thread.
  virtual std::uint64_t held(int group) const = 0;

  // After a deadline passed: makes a group quiet. Workers that have not left job `sequence` behind
  // in a moment are killed (and started again later, unless somebody else started them). Returns at
  // once; quiet() tells when. Any thread.
  virtual void clear(int group, std::uint64_t sequence) = 0;

  // Of every worker that should run and every worker slot that somebody else took. Any thread.
  virtual std::vector<WorkerStatus> status() const = 0;
  // Waits until every worker that should run (all but those left out) is live, or the time is over.
  // For tests, benchmarks.
  virtual bool wait_until_live(double timeout_s) const = 0;
};

}  // namespace tandem
