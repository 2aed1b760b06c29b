// The CPUs on which a thread may run.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

// Ascending; empty if there is no such thread. 0: the calling thread. If sched_getaffinity is
// forbidden, /proc is read instead. Thread-safe.
std::vector<int> cpus_of_thread(pid_t thread = 0);

// Restricts the thread to these CPUs; threads that it starts inherit this. invalid_argument: it may
// use none of them, or they do not exist; permission_denied: this process may not set it (a
// container's seccomp profile). Thread-safe.
Status set_cpus_of_thread(std::span<const int> cpus, pid_t thread = 0);

// Likewise, but only logs a refusal, which at most costs speed. `whose`: "a compute thread".
void pin_thread(pthread_t thread, std::span<const int> cpus, std::string_view whose);
void pin_this_thread(std::span<const int> cpus, std::string_view whose);

}  // namespace tandem
