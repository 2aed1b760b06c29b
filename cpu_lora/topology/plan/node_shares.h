// Divides the cores of a NUMA node among the GPUs that are attached to it. Pure.
#pragma once

#include <string>
#include <vector>

#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/plan/core_slots.h"

namespace tandem {

// The places of these GPUs: for each GPU the nodes with memory that it is attached to, without
// duplicates if several GPUs have the same nodes. A GPU whose nodes the machine does not report has
// no place. `gpus` must be in the map.
std::vector<std::vector<int>> places_of(const MachineMap& machine, const std::vector<int>& gpus);

// GPUs attached to the same node get equal parts of its cores, in the order of their numbers. GPUs
// whose nodes the machine does not report count as attached to `home`. Sets CoreSlot::own of the
// slots at the nodes of `home`: whether they are in the part of `gpus`. Returns a sentence for each
// node that is shared.
std::vector<std::string> share_nodes(const MachineMap& machine, const std::vector<int>& gpus,
                                     const std::vector<int>& home, std::vector<CoreSlot>& slots);

// An engine has mailboxes for at most kMaxMailboxes nodes: slots of farther nodes lose
// CoreSlot::near.
void keep_to_worker_nodes(std::vector<CoreSlot>& slots);

}  // namespace tandem
