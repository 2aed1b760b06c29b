#include "base/threads/thread_cpus.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>

#include "base/log/log.h"
#include "base/text/id_list.h"

namespace tandem {
namespace {

// A kernel CPU set for machines of any size; cpu_set_t itself ends at CPU 1023.
class CpuSet {
 public:
  explicit CpuSet(std::size_t num_cpus)
      : masks_((CPU_ALLOC_SIZE(num_cpus) + sizeof(cpu_set_t) - 1) / sizeof(cpu_set_t)) {}

  cpu_set_t* get() { return masks_.data(); }
  std::size_t bytes() const { return masks_.size() * sizeof(cpu_set_t); }
  void add(int cpu) { CPU_SET_S(static_cast<std::size_t>(cpu), bytes(), masks_.data()); }
  std::vector<int> ids() const {
    std::vector<int> ids;
    for (std::size_t cpu = 0; cpu < 8 * bytes(); ++cpu) {
      if (CPU_ISSET_S(cpu, bytes(), masks_.data())) ids.push_back(static_cast<int>(cpu));
    }
    return ids;
  }

 private:
  std::vector<cpu_set_t> masks_;  // initially zero
};

CpuSet set_of(std::span<const int> cpus) {
  const auto known = [](int cpu) { return cpu >= 0 && cpu <= kMaxId; };
  int most = 0;
  for (const int cpu : cpus) {
    if (known(cpu)) most = std::max(most, cpu);
  }
  CpuSet set(static_cast<std::size_t>(most) + 1);
  for (const int cpu : cpus) {
    if (known(cpu)) set.add(cpu);
  }
  return set;
}

// The list of CPUs in the thread's status file.
std::vector<int> cpus_by_proc(pid_t thread) {
  constexpr std::string_view kKey = "Cpus_allowed_list:";
  std::ifstream file(thread == 0 ? "/proc/thread-self/status"
                                 : fmt::format("/proc/{}/status", thread));
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(kKey)) continue;
    const std::size_t start = std::min(line.find_first_not_of(" \t", kKey.size()), line.size());
    Result<std::vector<int>> cpus = parse_id_list(std::string_view(line).substr(start));
    return cpus ? *std::move(cpus) : std::vector<int>{};
  }
  return {};
}

// "cannot pin a compute thread to cpus 0-3: Operation not permitted", from the errno.
Status refusal(std::string_view what, std::span<const int> cpus, int failure) {
  const std::string tried =
      fmt::format("cannot {} cpus {}", what, format_id_list({cpus.begin(), cpus.end()}));
  if (failure == EINVAL) {
    return invalid("{}: there are none such, or this process may use none of them", tried);
  }
  Status status = errno_status(tried, failure);
  if (failure == EPERM || failure == EACCES || failure == ENOSYS) {
    return {StatusCode::permission_denied, status.message()};
  }
  return status;
}

}  // namespace

std::vector<int> cpus_of_thread(pid_t thread) {
  // EINVAL means that the kernel's own set is larger.
  for (std::size_t size = CPU_SETSIZE; size <= kMaxId; size *= 2) {
    CpuSet set(size);
    if (sched_getaffinity(thread, set.bytes(), set.get()) == 0) return set.ids();
    if (errno == ESRCH) return {};
    if (errno != EINVAL) break;
  }
  return cpus_by_proc(thread);
}

Status set_cpus_of_thread(std::span<const int> cpus, pid_t thread) {
  CpuSet set = set_of(cpus);
  if (sched_setaffinity(thread, set.bytes(), set.get()) == 0) return {};
  return refusal("run only on", cpus, errno);
}

void pin_thread(pthread_t thread, std::span<const int> cpus, std::string_view whose) {
  CpuSet set = set_of(cpus);
  const int failed = pthread_setaffinity_np(thread, set.bytes(), set.get());
  if (failed == 0) return;
  log::warning("{}", refusal(fmt::format("pin {} to", whose), cpus, failed).message());
}

void pin_this_thread(std::span<const int> cpus, std::string_view whose) {
  pin_thread(pthread_self(), cpus, whose);
}

}  // namespace tandem
