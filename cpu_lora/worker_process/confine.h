// Takes away all rights that a worker does not need. If an attacker takes over a worker, the worker
// can only write wrong numbers into its outbox or wrong answers into its channel.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace tandem {

// Whether confine_this_process() filters system calls and lowers limits in this build. Builds with
// sanitizers do not, because their run-time libraries open files and start threads.
bool confines_system_calls();

// The rights that one process keeps in addition to those of every confined process.
struct Confinement {
  int channel = -1;              // a descriptor that it reads and writes; -1: none
  bool cpu_timer = false;        // setitimer(), by which it bounds its own processor time
  std::size_t memory_bytes = 0;  // private memory, beyond what it has now; 0: any amount
};

// Applies for good and to all later threads. Call it with a single thread, after everything is open
// and mapped, and after the libraries' first calls. In this order:
//   - limits: no new files, processes, core dumps or queued signals
//   - root becomes nobody (65534); the signal at the parent's death, which this clears, is set
//     again
//   - all capabilities are dropped; no_new_privs is set
//   - system calls are filtered: memory, futex, clock, yield, poll, return from signals, messages
//     to descriptor 2, exit and the rights in `keeps` are allowed. All others fail with EPERM, so
//     that a library that looks for a file continues without it.
// If root may not become nobody (a user namespace without it), that step is skipped.
Status confine_this_process(const Confinement& keeps = {});

}  // namespace tandem
