#include "cpu_lora/worker_process/confine.h"

#include <cap-ng.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "base/log/log.h"

namespace tandem {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kFilters = false;
#else
constexpr bool kFilters = true;
#endif

constexpr int kNobody = 65534;

Status limit(int resource, const char* name, rlim_t most = 0) {
  const rlimit lowered{most, most};
  if (::setrlimit(static_cast<__rlimit_resource>(resource), &lowered) == 0) return {};
  return errno_status(fmt::format("setrlimit of {}", name), errno);
}

// Bytes of private memory that the process may write to, as RLIMIT_DATA counts them, plus its
// stack.
Result<std::size_t> private_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  for (int field = 0; field < 6; ++field) file >> pages;
  if (!file) return error(StatusCode::internal, "/proc/self/statm cannot be read");
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

Status limit_memory(std::size_t bytes) {
  if (bytes == 0) return {};
  TANDEM_ASSIGN(const std::size_t taken, private_bytes());
  return limit(RLIMIT_DATA, "private memory", taken + bytes);
}

Status lower_limits() {
  // The limit is one and not zero, because poll() accepts at most this many descriptors.
  TANDEM_TRY(limit(RLIMIT_NOFILE, "open files", 1));
  TANDEM_TRY(limit(RLIMIT_NPROC, "processes"));
  TANDEM_TRY(limit(RLIMIT_CORE, "core dumps"));
  TANDEM_TRY(limit(RLIMIT_MSGQUEUE, "message queues"));
  return limit(RLIMIT_SIGPENDING, "queued signals");
}

Status become_nobody() {
  if (::geteuid() != 0) return {};
  int signal_at_death = 0;
  if (::prctl(PR_GET_PDEATHSIG, &signal_at_death) != 0) {
    return errno_status("prctl(PR_GET_PDEATHSIG)", errno);
  }
  ::capng_clear(CAPNG_SELECT_BOTH);  // the capabilities to keep
  const int failure = ::capng_change_id(
      kNobody, kNobody, static_cast<capng_flags_t>(CAPNG_DROP_SUPP_GRP | CAPNG_CLEAR_BOUNDING));
  if (failure != 0 && ::geteuid() == 0) {
    log::warning("a worker keeps running as root: it may not become user {} (capng_change_id: {})",
                 kNobody, failure);
    return {};
  }
  if (failure != 0) return error(StatusCode::internal, "capng_change_id: {}", failure);
  // The kernel clears this signal when user ids change. alive() detects a parent that died
  // meanwhile.
  if (::prctl(PR_SET_PDEATHSIG, signal_at_death) != 0) {
    return errno_status("prctl(PR_SET_PDEATHSIG)", errno);
  }
  return {};
}

Status drop_capabilities() {
  ::capng_clear(CAPNG_SELECT_ALL);
  // The bounding set can be cleared only with CAP_SETPCAP. It matters only for exec, and
  // no_new_privs makes exec harmless.
  const bool may_clear_bounds = ::capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP) != 0;
  if (::capng_apply(may_clear_bounds ? CAPNG_SELECT_ALL : CAPNG_SELECT_CAPS) != 0) {
    return errno_status("dropping capabilities", errno);
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return errno_status("prctl(PR_SET_NO_NEW_PRIVS)", errno);
  }
  return {};
}

// The system calls of the worker's loop, malloc, oneDNN's code generator, OpenMP and process exit.
constexpr int kAllowed[] = {
    SCMP_SYS(futex),
    SCMP_SYS(sched_yield),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(brk),
    SCMP_SYS(munmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getcpu),
    SCMP_SYS(close),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

Status refused(int failure) {
  return errno_status("filtering system calls", -failure);
}

struct AllowedIf {
  int call;
  scmp_arg_cmp condition;
};

std::vector<AllowedIf> allowed_conditionally(const Confinement& keeps) {
  // Anonymous memory, and messages to standard error.
  const scmp_arg_cmp anonymous = {3, SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS};
  const scmp_arg_cmp to_error = {0, SCMP_CMP_EQ, STDERR_FILENO, 0};
  // A crash ends with a signal that the process sends to itself.
  const scmp_arg_cmp to_itself = {0, SCMP_CMP_EQ, static_cast<scmp_datum_t>(::getpid()), 0};
  // Signal 0 checks whether the engine lives if there is no pidfd.
  const scmp_arg_cmp no_signal = {1, SCMP_CMP_EQ, 0, 0};
  std::vector<AllowedIf> allowed = {{SCMP_SYS(mmap), anonymous},
                                    {SCMP_SYS(write), to_error},
                                    {SCMP_SYS(writev), to_error},
                                    {SCMP_SYS(tgkill), to_itself},
                                    {SCMP_SYS(kill), no_signal}};
  if (keeps.channel >= 0) {
    const scmp_arg_cmp channel = {0, SCMP_CMP_EQ, static_cast<scmp_datum_t>(keeps.channel), 0};
    allowed.push_back({SCMP_SYS(read), channel});
    allowed.push_back({SCMP_SYS(write), channel});
  }
  return allowed;
}

Status filter_system_calls(const Confinement& keeps) {
  const std::unique_ptr<void, void (*)(scmp_filter_ctx)> filter(
      ::seccomp_init(SCMP_ACT_ERRNO(EPERM)), &::seccomp_release);
  if (filter == nullptr) return error(StatusCode::internal, "seccomp_init failed");
  // The filter also applies to threads that a library may have started.
  int failure = ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
  if (failure != 0) return refused(failure);
  for (const int call : kAllowed) {
    failure = ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0);
    if (failure != 0) return refused(failure);
  }
  if (keeps.cpu_timer) {
    failure = ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(setitimer), 0);
    if (failure != 0) return refused(failure);
  }
  for (const AllowedIf& each : allowed_conditionally(keeps)) {
    failure = ::seccomp_rule_add_array(filter.get(), SCMP_ACT_ALLOW, each.call, 1, &each.condition);
    if (failure != 0) return refused(failure);
  }
  failure = ::seccomp_load(filter.get());
  return failure == 0 ? Status() : refused(failure);
}

}  // namespace

bool confines_system_calls() {
  return kFilters;
}

Status confine_this_process(const Confinement& keeps) {
  if (!kFilters) return drop_capabilities();
  TANDEM_TRY(become_nobody());
  TANDEM_TRY(drop_capabilities());
  TANDEM_TRY(limit_memory(keeps.memory_bytes));
  TANDEM_TRY(lower_limits());
  return filter_system_calls(keeps);
}

}  // namespace tandem
