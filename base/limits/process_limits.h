// Limits of this process's memory that fail its calls: RLIMIT_AS and RLIMIT_DATA (ulimit -v, -d).
#pragma once

#include <cstddef>
#include <exception>
#include <string>

namespace tandem {

// Bytes of address space (`as`) and of private writable memory (`data`): the limits and what is
// taken.
struct ProcessMemory {
  static constexpr std::size_t kNoLimit = ~std::size_t{0};
  std::size_t as_limit = kNoLimit;
  std::size_t as_taken = 0;
  std::size_t data_limit = kNoLimit;
  std::size_t data_taken = 0;
};
ProcessMemory read_process_memory();

// "; RLIMIT_AS (ulimit -v) lets this process have ...: raise it", for each limit that `wanted` more
// bytes would break; empty: none does.
std::string limit_remedy(const ProcessMemory& memory, std::size_t wanted);
// The same of this process now, for a call that failed with this errno value: for want of memory,
// or of a stack for a thread. Empty for any other errno.
std::string limit_remedy(int errno_value);

// What the exception says, with limit_remedy() where it is std::bad_alloc or a system_error for
// want of memory or of a thread.
std::string failure_text(const std::exception& failure);

}  // namespace tandem
