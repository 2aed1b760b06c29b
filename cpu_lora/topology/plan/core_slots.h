// The hardware threads that a plan may assign. Pure.
#pragma once

#include <string>
#include <vector>

#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/plan/pin_plan.h"

namespace tandem {

// A hardware thread that may be assigned.
struct CoreSlot {
  enum class Claim { none, of_workers, of_engine };  // which kind of claim another engine has

  int cpu = 0;
  int core = 0;      // position in the map
  int node = 0;      // the node whose memory it uses
  int rank = 0;      // among the usable threads of its core
  int kind = 0;      // MachineCore::speed_rank
  int distance = 0;  // position of its node in the order of distance from the plan's node
  int place = 0;     // which place of the plan's GPUs it is in; the first if it is in none
  bool isolated = false;
  bool near = false;  // workers may use it
  bool own = true;    // it is in the part of its node that belongs to this plan's GPUs
  bool given = false;
  Claim claim = Claim::none;
};

// The slots of every core that may be used, in the map's order: one thread per core, or all with
// options.smt. `kinds_left_out` receives the cpus of kinds that are too slow.
std::vector<CoreSlot> find_core_slots(const MachineMap& machine, const PinOptions& options,
                                      std::vector<int>& kinds_left_out);

}  // namespace tandem
