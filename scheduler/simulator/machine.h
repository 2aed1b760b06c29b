// Machines that an engine is simulated on: what steps, loads and fetches take, and what fits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/costs/cold_start_costs.h"
#include "scheduler/costs/step_costs.h"

namespace tandem {

struct SimMachine {
  std::string name;
  std::string description;  // model, card and where the figures are from, in a sentence
  StepCosts costs;
  ColdStartCosts cold;
  std::int32_t max_requests = 32;   // that run together
  std::int64_t step_tokens = 2048;  // of prompts in one step, unless one prompt alone has more
  std::int64_t kv_tokens = 0;       // room for KV
  std::int64_t adapter_bytes = 0;   // room of the device tier
  std::int64_t host_bytes = 0;      // room of the host tier
  std::int32_t workers = 12;
  std::int64_t bytes_per_rank = 0;  // of an adapter
};

std::vector<std::string> sim_machine_names();
Result<SimMachine> sim_machine(std::string_view name, LoraKernel kernel);

}  // namespace tandem
