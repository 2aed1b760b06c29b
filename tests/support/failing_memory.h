// Makes allocations fail on demand, by replacing operator new of the whole test program. Link it
// only into a separate program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::test {

// Chooses the threads whose allocations may fail: the calling thread, and all threads that made no
// choice of their own. Initially none.
void may_fail_here(bool whether);
void may_fail_elsewhere(bool whether);

// Makes allocation number `first` (1: the next) of the chosen threads fail, and the `count` - 1
// allocations after it. Allocations below `min_bytes` are not counted. Callable by any thread, like
// the functions below.
void fail_allocations(std::int64_t first, std::int64_t count, std::size_t min_bytes = 0);
// Stops the failures. Returns their number.
std::int64_t stop_failing();
// Allocations of the chosen threads since fail_allocations(), or since the start.
std::int64_t allocations();

}  // namespace tandem::test
