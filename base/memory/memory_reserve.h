// Reserved memory for the moment when the system has no more.
//
// It has two halves. When an allocation by operator new first fails, the first half is released and
// the allocation tried again, so that work in progress can finish. The next one that fails throws
// std::bad_alloc. The second half is for allocations that fail during exception handling: unwinding
// runs destructors that allocate (nlohmann's JSON) and that must not fail. After that every failure
// throws, until the code that accepts new work calls memory_is_short(), which reserves both halves
// again as soon as they are available.
#pragma once

#include <cstddef>

namespace tandem {

// Call once, before there are other threads: sets the process's new_handler. `half_bytes` is the
// size of each half. If even that is unavailable, there is no reserve until it is.
void keep_memory_reserve(std::size_t half_bytes);

// True: an allocation failed, and the released reserve is not available again yet, so accept no new
// work. False also if there is no reserve. Thread-safe, never allocates; costs one atomic read
// normally.
bool memory_is_short();

}  // namespace tandem
