// Allocations that fail on demand: operator new of the whole test program. Link it into a program
// of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::test {

// Which threads' allocations may fail: those of the calling thread, and those of all threads that
// have not said. At first: none.
void may_fail_here(bool whether);
void may_fail_elsewhere(bool whether);

// From now on the allocation number `first` (1: the next) of the threads that take part fails, and
// the `count` - 1 after it. Smaller ones than `min_bytes` are not counted. Any thread, like all
// below.
void fail_allocations(std::int64_t first, std::int64_t count, std::size_t min_bytes = 0);
// None fails any more. Returns how many did.
std::int64_t stop_failing();
// Of the threads that take part, since fail_allocations() or ever.
std::int64_t allocations();

}  // namespace tandem::test
