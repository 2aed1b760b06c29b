// A machine and its plan as a picture: packages, nodes, caches, cores and hardware threads as boxes
// in boxes, GPUs at their node, each thread in the colour of its role.
#pragma once

#include <map>
#include <string>

#include "cpu_lora/topology/machine_map.h"
#include "tools/pin/pin_views.h"

namespace tandem {

// A whole SVG file, readable on light and on dark pages. `caption` is a line below the title.
std::string machine_svg(const MachineMap& map, const std::map<int, CpuRole>& roles,
                        const std::string& caption);

}  // namespace tandem
