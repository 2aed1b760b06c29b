#include "base/limits/process_limits.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <new>
#include <system_error>

#include "base/limits/bytes_text.h"

namespace tandem {
namespace {

std::size_t limit_of(decltype(RLIMIT_AS) which) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return ProcessMemory::kNoLimit;
  }
  return limit.rlim_cur;
}

// If a thread got no stack, limits that leave less than this are named: by the time of the error,
// the caller has ended its other threads and returned their stacks and heaps.
constexpr std::size_t kStacks = std::size_t{1} << 30;

constexpr std::size_t kStatmFields = 6;  // pages: all, resident, shared, text, 0, data and stack

// Uses no heap, which may be exhausted.
std::array<std::size_t, kStatmFields> read_statm() {
  std::array<std::size_t, kStatmFields> pages{};
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return pages;
  std::array<char, 256> text{};
  const ssize_t count = ::read(file, text.data(), text.size());
  ::close(file);
  const char* at = text.data();
  const char* const end = at + (count > 0 ? count : 0);
  for (std::size_t& value : pages) {
    at = std::from_chars(at, end, value).ptr;
    if (at != end) ++at;
  }
  return pages;
}

std::string sentence(const char* name, const char* what, std::size_t limit, std::size_t taken,
                     std::size_t wanted) {
  const bool holds =
      limit == ProcessMemory::kNoLimit || (taken <= limit && wanted <= limit - taken);
  if (holds) return {};
  return fmt::format("; {} lets this process have {} of {}, and {} are taken: raise it", name,
                     bytes_text(static_cast<double>(limit)), what,
                     bytes_text(static_cast<double>(taken)));
}

}  // namespace

ProcessMemory read_process_memory() {
  ProcessMemory memory;
  memory.as_limit = limit_of(RLIMIT_AS);
  memory.data_limit = limit_of(RLIMIT_DATA);
  const std::array<std::size_t, kStatmFields> pages = read_statm();
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  memory.as_taken = pages[0] * page_bytes;
  memory.data_taken = pages[5] * page_bytes;
  return memory;
}

std::string limit_remedy(const ProcessMemory& memory, std::size_t wanted) {
  return sentence("RLIMIT_AS (ulimit -v)", "address space", memory.as_limit, memory.as_taken,
                  wanted) +
         sentence("RLIMIT_DATA (ulimit -d)", "private memory", memory.data_limit, memory.data_taken,
                  wanted);
}

std::string limit_remedy(int errno_value) {
  // The size that the failed call wanted is unknown.
  if (errno_value == ENOMEM) return limit_remedy(read_process_memory(), ProcessMemory::kNoLimit);
  if (errno_value == EAGAIN) return limit_remedy(read_process_memory(), kStacks);
  return {};
}

std::string failure_text(const std::exception& failure) {
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) {
    return "out of memory" + limit_remedy(ENOMEM);
  }
  const auto* system = dynamic_cast<const std::system_error*>(&failure);
  if (system == nullptr || system->code().category() != std::generic_category()) {
    return failure.what();
  }
  return failure.what() + limit_remedy(system->code().value());
}

}  // namespace tandem
