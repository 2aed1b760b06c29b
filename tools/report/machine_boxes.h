// A machine as nested boxes, for the text and the picture of `tandem pin show`: packages contain
// NUMA nodes, these contain caches, and a core is listed in the innermost box that contains it.
#pragma once

#include <string>
#include <vector>

#include "cpu_lora/topology/machine_map.h"

namespace tandem {

struct MachineBox {
  enum class Kind { machine, package, node, cache };
  Kind kind = Kind::machine;
  std::string name;    // "node 0"
  std::string detail;  // "62.8 GiB"; may be empty
  std::vector<int> cpus;
  std::vector<MachineBox> boxes;
  std::vector<const MachineCore*> cores;  // those that are not in one of `boxes`
  std::vector<const MachineGpu*> gpus;
};

// The result points into `map`, which must outlive it. Caches of a single core are no boxes.
MachineBox make_boxes(const MachineMap& map);

// "L2 2 MiB, L1 48 KiB": the data caches that this core shares with no other.
std::string private_caches(const MachineMap& map, const MachineCore& core);

std::string bytes_text(std::uint64_t bytes);  // "48 KiB"; at most one digit after the point

}  // namespace tandem
