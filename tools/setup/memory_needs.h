// Whether a container's memory holds what an engine is about to take: said before it loads
// anything, as the kernel kills without a word.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/limits/memory_limit.h"
#include "base/status.h"

namespace tandem {

// Bytes of the host's memory. On a GPU weights, work space and pool lie in the GPU's.
struct MemoryNeeds {
  double weights = 0;
  double work = 0;  // of steps
  double pool = 0;
  double host_tier = 0;
};

// Bytes that the limit leaves for the pool beside the rest; below 0: not even for that; infinity:
// there is no limit.
double room_for_pool(const MemoryNeeds& needs, const std::optional<MemoryLimit>& limit);

// resource_exhausted where the limit leaves less than is needed, with its file and what to change:
// `pool_setting` is the setting that makes the pool smaller.
Status check_memory_needs(const MemoryNeeds& needs, const std::optional<MemoryLimit>& limit,
                          const std::string& pool_setting);

}  // namespace tandem
