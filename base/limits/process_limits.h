// Limits of this process's memory that make calls fail: RLIMIT_AS, RLIMIT_DATA (ulimit -v, -d).
#pragma once

#include <cstddef>
#include <exception>
#include <string>

namespace tandem {

// Bytes of address space (`as`) and of private writable memory (`data`): the limits and the bytes
// in use.
struct ProcessMemory {
  static constexpr std::size_t kNoLimit = ~std::size_t{0};
  std::size_t as_limit = kNoLimit;
  std::size_t as_taken = 0;
  std::size_t data_limit = kNoLimit;
  std::size_t data_taken = 0;
};
ProcessMemory read_process_memory();

// "; RLIMIT_AS (ulimit -v) lets this process have ...: raise it", for each limit that `wanted` more
// bytes would exceed; empty: none.
std::string limit_remedy(const ProcessMemory& memory, std::size_t wanted);
// Likewise for this process now, after a call that failed with this errno value for lack of memory
// or of a thread's stack. Empty for any other errno.
std::string limit_remedy(int errno_value);

// The exception's text, with limit_remedy() if it is std::bad_alloc, or a system_error for lack of
// memory or of a thread.
std::string failure_text(const std::exception& failure);

}  // namespace tandem
