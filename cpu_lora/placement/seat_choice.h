// Which empty seats of a running engine get a worker, and on which cpu.
#pragma once

#include <string>
#include <vector>

#include "cpu_lora/placement/placement.h"
#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/pin_plan.h"

namespace tandem {

struct SeatChoice {
  int group = 0;
  int seat = 0;
  int cpu = 0;
};

struct SeatChoices {
  std::vector<SeatChoice> seats;
  std::vector<std::string> notes;  // why there are not more
};

// First the seats that the engine means a cpu for and where nobody sits. Then, if workers are
// wished for (`wishes.workers`, counting those to be started) or the engine means none at all,
// further seats, on what the plan of `wishes` gives to workers at the group's node. No cpu that the
// engine keeps, that a seat is meant for, or that a worker is on.
SeatChoices choose_seats(const ObservedEngine& engine, const MachineMap& machine,
                         const PinOptions& wishes);

}  // namespace tandem
