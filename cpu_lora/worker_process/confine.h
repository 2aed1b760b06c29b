// Takes from this process what a worker does not need, so that one that is taken over can do no
// more than write wrong numbers into its outbox, or wrong answers into its channel.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace tandem {

// Whether confine_this_process() filters system calls and lowers limits in this build: the
// sanitizers' run-time libraries open files and start threads, so not under them.
bool confines_system_calls();

// The rights that one process keeps beyond those of every confined process.
struct Confinement {
  int channel = -1;              // a descriptor that it reads and writes; -1: none
  bool cpu_timer = false;        // setitimer(), by which it bounds its own processor time
  std::size_t memory_bytes = 0;  // private memory, beyond what it has now; 0: any amount
};

// For good, and for all threads to come; call it with one thread, after everything is open and
// mapped, and after the libraries' first calls. In this order:
//   no new files, processes, core dumps or queued signals (limits)
//   root becomes nobody (65534); the signal at the parent's death, which that clears, is set again
//   every capability goes; no_new_privs
//   system calls: memory, futex, clock, yield, poll, signals' return, messages to descriptor 2, the
//   end, and what `keeps` names. Everything else is EPERM, so that a library that looks for a file
//   does without.
// Where root may not become nobody (a user namespace without it), that is left out.
Status confine_this_process(const Confinement& keeps = {});

}  // namespace tandem
