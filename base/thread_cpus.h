// On which cpus a thread runs.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <span>
#include <string_view>
#include <vector>

namespace tandem {

// Rising; none where there is no such thread. 0: the calling one.
std::vector<int> cpus_of_thread(pid_t thread = 0);

// The thread runs on these alone from now on; those that it starts begin there, too. What the
// kernel refuses is told, and costs speed at the most. `whose`: "a compute thread".
void pin_thread(pthread_t thread, std::span<const int> cpus, std::string_view whose);
void pin_this_thread(std::span<const int> cpus, std::string_view whose);

}  // namespace tandem
