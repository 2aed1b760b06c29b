#include "base/thread_cpus.h"

#include <fmt/ranges.h>
#include <sched.h>

#include "base/log.h"

namespace tandem {

std::vector<int> cpus_of_thread(pid_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(thread, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<unsigned>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void pin_thread(pthread_t thread, std::span<const int> cpus, std::string_view whose) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<unsigned>(cpu), &set);
  }
  const int failed = pthread_setaffinity_np(thread, sizeof set, &set);
  if (failed == 0) return;
  log::warning("cannot pin {} to cpus {}: error {}", whose, fmt::join(cpus, ","), failed);
}

void pin_this_thread(std::span<const int> cpus, std::string_view whose) {
  pin_thread(pthread_self(), cpus, whose);
}

}  // namespace tandem
