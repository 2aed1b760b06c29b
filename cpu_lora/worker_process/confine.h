// Takes from this process what a worker does not need, so that one that is taken over can do no
// more than write wrong numbers into its outbox.
#pragma once

#include "base/status.h"

namespace tandem {

// Whether confine_this_process() filters system calls and lowers limits in this build: the
// sanitizers' run-time libraries open files and start threads, so not under them.
bool confines_system_calls();

// For good, and for all threads to come; call it with one thread, after everything is open and
// mapped, and after the libraries' first calls. In this order:
//   no new files, processes, core dumps or queued signals (limits)
//   root becomes nobody (65534); the signal at the parent's death, which that clears, is set again
//   every capability goes; no_new_privs
//   system calls: memory, futex, clock, yield, poll, signals' return, messages to descriptor 2, and
//   the end. Everything else is EPERM, so that a library that looks for a file does without.
// Where root may not become nobody (a user namespace without it), that is left out.
Status confine_this_process();

}  // namespace tandem
