// For LD_PRELOAD into a real `tandem`: emulates a kernel for $MANY_CPUS cpus, all of which the
// process may use. Like the kernel's own call it refuses sets that are too small for them.
#include <sched.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

extern "C" int sched_getaffinity(pid_t /*process*/, std::size_t bytes, cpu_set_t* set) noexcept {
  const char* const count = std::getenv("MANY_CPUS");
  const std::size_t cpus = count == nullptr ? 1 : std::strtoull(count, nullptr, 10);
  if (8 * bytes < cpus) {
    errno = EINVAL;
    return -1;
  }
  std::memset(set, 0, bytes);
  for (std::size_t cpu = 0; cpu < cpus; ++cpu) CPU_SET_S(cpu, bytes, set);
  return 0;
}
