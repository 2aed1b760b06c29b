// Whose part of a NUMA node is whose, where several GPUs hang at it. Pure.
#pragma once

#include <string>
#include <vector>

#include "cpu_lora/topology/core_slots.h"
#include "cpu_lora/topology/machine_map.h"

namespace tandem {

// The nodes with memory that these GPUs hang at, those of each GPU together; once, where several
// hang at the same. A GPU whose place the machine does not tell has none. They are in the map.
std::vector<std::vector<int>> places_of(const MachineMap& machine, const std::vector<int>& gpus);

// GPUs that hang at a node have equal parts of its cores, in the order of their numbers. Those
// whose place the machine does not tell count as hanging together, at `home`. Sets CoreSlot::own of
// the slots at the nodes of `home`: whether they are of the part of `gpus`. Returns a sentence for
// each node that is shared.
std::vector<std::string> share_nodes(const MachineMap& machine, const std::vector<int>& gpus,
                                     const std::vector<int>& home, std::vector<CoreSlot>& slots);

// An engine has mailboxes for kMaxMailboxes nodes: what lies farther is near no more.
void keep_to_worker_nodes(std::vector<CoreSlot>& slots);

}  // namespace tandem
