// A machine and its plan as a picture: nested boxes for packages, nodes, caches, cores and hardware
// threads, GPUs at their node, and each thread in the colour of its role.
#pragma once

#include <map>
#include <string>

#include "cpu_lora/topology/machine_map.h"
#include "tools/pin/pin_views.h"

namespace tandem {

// Returns a whole SVG file, readable on light and on dark pages. `caption` is a line below the
// title.
std::string machine_svg(const MachineMap& map, const std::map<int, CpuRole>& roles,
                        const std::string& caption);

}  // namespace tandem
