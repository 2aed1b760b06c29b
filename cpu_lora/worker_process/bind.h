// Binds this process to a core and its memory to a node.
#pragma once

#include "base/status.h"

namespace tandem {

// Restricts the process to `cpu` from now on. -1: no restriction. invalid_argument: there is no
// such cpu, or this process may not use it.
Status bind_to_cpu(int cpu);
// Takes new memory of this process from `node`, and from other nodes once it is full. -1, or a
// machine without NUMA: no preference.
void prefer_memory_of(int node);

}  // namespace tandem
