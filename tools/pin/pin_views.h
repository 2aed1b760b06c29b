// The output of `tandem pin` for a machine and a plan, as text and as JSON.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/plan/pin_plan.h"

namespace tandem {

std::string plural(std::size_t count, const char* word);  // "1 core", "2 cores"

// "IntelAtom"; "kind 2 of 2" if the machine has no name for it. `rank` is a core's speed_rank.
std::string kind_name(const MachineMap& map, int rank);

// The role of a hardware thread.
enum class CpuRole {
  idle,
  engine,
  worker,
  sibling,   // the engine or a worker uses another thread of its core
  excluded,  // by the user
  barred,    // by the cpuset or the affinity mask
};

// The role of every hardware thread of the machine. `plan` null: no plan was requested.
std::map<int, CpuRole> cpu_roles(const MachineMap& map, const PinPlan* plan,
                                 const PinOptions& options);

// One plan with the cores of all plans, for the picture. Requires at least one plan.
PinPlan all_of(const std::vector<PinPlan>& plans);

// The machine as a tree, and which of its resources may be used.
std::string machine_text(const MachineMap& map);
nlohmann::json machine_json(const MachineMap& map);

// The assigned cores, the notes, and the lines for a config file.
std::string plan_text(const MachineMap& map, const PinPlan& plan);
nlohmann::json plan_json(const PinPlan& plan);

// The settings that realise a plan: keys and values as TOML, in the file's order.
std::vector<std::pair<std::string, std::string>> plan_settings(const PinPlan& plan);

}  // namespace tandem
