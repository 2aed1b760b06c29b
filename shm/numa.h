// The NUMA node of a shared region's pages.
#pragma once

#include <cstddef>

namespace tandem {

// Makes the kernel take pages of the shared mapping at `begin` that are not allocated yet from NUMA
// node `node`, and from others once it is full: slower memory is better than an engine killed for
// lack of it. With -1, or without NUMA, any node is used. A failure is only logged.
void prefer_node(void* begin, std::size_t bytes, int node);

}  // namespace tandem
