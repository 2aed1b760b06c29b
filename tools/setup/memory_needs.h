// Checks that a container's memory limit allows what an engine will allocate. It runs before
// anything is loaded, because the kernel kills a process over the limit without a message.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/limits/memory_limit.h"
#include "base/status.h"

namespace tandem {

// Bytes of host memory. With a GPU, weights, work space and pool are in the GPU's memory instead.
struct MemoryNeeds {
  double weights = 0;
  double work = 0;  // work space of steps
  double pool = 0;
  double host_tier = 0;
};

// Bytes that the limit leaves for the pool; negative: even the rest does not fit; infinity: no
// limit.
double room_for_pool(const MemoryNeeds& needs, const std::optional<MemoryLimit>& limit);

// Returns resource_exhausted if the limit is too low; the message names its file and the settings
// to change. `pool_setting` is the setting that makes the pool smaller.
Status check_memory_needs(const MemoryNeeds& needs, const std::optional<MemoryLimit>& limit,
                          const std::string& pool_setting);

}  // namespace tandem
