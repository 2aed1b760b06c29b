// The hardware threads that a plan may give away. Pure.
#pragma once

#include <string>
#include <vector>

#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/pin_plan.h"

namespace tandem {

// One that may be given away.
struct CoreSlot {
  enum class Claim { none, of_workers, of_engine };  // by another engine

  int cpu = 0;
  int core = 0;      // position in the map
  int node = 0;      // whose memory it uses
  int rank = 0;      // among the usable threads of its core
  int kind = 0;      // MachineCore::speed_rank
  int distance = 0;  // of its node from the plan's: a position in the order of nodes
  int place = 0;     // of the plan's GPUs' places that which it is in; what is in none: the first
  bool isolated = false;
  bool near = false;  // workers may have it
  bool own = true;    // of the part of its node that is this plan's GPUs'
  bool given = false;
  Claim claim = Claim::none;
};

// Of every core that may be used, in the map's order: one thread, or with options.smt all of them.
// `kinds_left_out`: the cpus of kinds that are too slow.
std::vector<CoreSlot> find_core_slots(const MachineMap& machine, const PinOptions& options,
                                      std::vector<int>& kinds_left_out);

}  // namespace tandem
