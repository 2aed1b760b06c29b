// Memory put aside for the moment when the system gives no more.
//
// It has two halves. When an allocation by operator new first fails, the first half is given up and
// the allocation tried again, so that what is under way can end. The next one that fails throws
// std::bad_alloc. The second half is for those that fail while an exception is under way: unwinding
// meets destructors that allocate (nlohmann's JSON) and that may not fail. From then on every
// failure throws, until whoever takes on new work
// has asked memory_is_short(), which puts both aside again as soon as they are to be had.
#pragma once

#include <cstddef>

namespace tandem {

// Once, before there are other threads: sets the process's new_handler. `half_bytes`: of each half.
// Where not even so much is to be had, there is no reserve until there is.
void keep_memory_reserve(std::size_t half_bytes);

// True: an allocation failed, and what was given up for it cannot be had back yet; take on nothing
// new. False: also where nobody keeps a reserve. Thread-safe, allocates nothing; one atomic read
// while all is well.
bool memory_is_short();

}  // namespace tandem
