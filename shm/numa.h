// Where the kernel puts the pages of a shared region.
#pragma once

#include <cstddef>

namespace tandem {

// Pages of the shared mapping at `begin` that are not there yet will come from NUMA node `node`,
// and from others once it is full: slower memory is better than an engine killed for want of it.
// -1, or a machine without NUMA: from anywhere. A refusal is a matter for the log.
void prefer_node(void* begin, std::size_t bytes, int node);

}  // namespace tandem
