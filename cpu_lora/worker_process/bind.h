// Ties this process to a core and its memory to a node.
#pragma once

#include "base/status.h"

namespace tandem {

// Runs on `cpu` alone from now on. -1: anywhere. invalid_argument: there is no such cpu, or this
// process may not use it.
Status bind_to_cpu(int cpu);
// New memory of this process comes from `node`, and from others once it is full. -1, or a machine
// without NUMA: from anywhere.
void prefer_memory_of(int node);

}  // namespace tandem
