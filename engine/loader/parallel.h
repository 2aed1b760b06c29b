// One loop over a few threads, for work bound by memory.
#pragma once

#include <cstddef>
#include <functional>

namespace tandem {

// Calls body(begin, end) for every piece of `chunk` out of [0, count), the last one shorter, on
// this thread and on others that live only as long as the call. All calls in the process together
// start no more others than the machine has cores. `body` must not throw.
void parallel_chunks(std::size_t count, std::size_t chunk,
                     const std::function<void(std::size_t, std::size_t)>& body);

}  // namespace tandem
