// Machines for simulated engines: times of steps, loads and fetches, and capacities.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/planning/costs/cold_start_costs.h"
#include "scheduler/planning/costs/step_costs.h"

namespace tandem {

struct SimMachine {
  std::string name;
  std::string description;  // one sentence: model, card and source of the figures
  StepCosts costs;
  ColdStartCosts cold;
  std::int32_t max_requests = 32;   // maximum that run together
  std::int64_t step_tokens = 2048;  // maximum prompt tokens in a step; a longer prompt runs alone
  std::int64_t kv_tokens = 0;       // capacity for KV
  std::int64_t adapter_bytes = 0;   // capacity of the device tier
  std::int64_t host_bytes = 0;      // capacity of the host tier
  std::int32_t workers = 12;
  std::int64_t bytes_per_rank = 0;  // size of an adapter per unit of rank
};

std::vector<std::string> sim_machine_names();
Result<SimMachine> sim_machine(std::string_view name, LoraKernel kernel);

}  // namespace tandem
