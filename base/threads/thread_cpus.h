// On which cpus a thread runs.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

// Rising; none where there is no such thread. 0: the calling one. Where sched_getaffinity is
// forbidden, /proc tells. Thread-safe.
std::vector<int> cpus_of_thread(pid_t thread = 0);

// The thread runs on these alone from now on; those that it starts begin there, too.
// invalid_argument: it may use none of them, or there are none such; permission_denied: this
// process may not set it (a container's seccomp profile). Thread-safe.
Status set_cpus_of_thread(std::span<const int> cpus, pid_t thread = 0);

// The same, and a refusal costs speed at the most: it is logged. `whose`: "a compute thread".
void pin_thread(pthread_t thread, std::span<const int> cpus, std::string_view whose);
void pin_this_thread(std::span<const int> cpus, std::string_view whose);

}  // namespace tandem
