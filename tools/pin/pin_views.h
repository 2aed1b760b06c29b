// What `tandem pin` shows of a machine and of a plan, as text and as JSON.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/pin_plan.h"

namespace tandem {

std::string plural(std::size_t count, const char* word);  // "1 core", "2 cores"

// "IntelAtom"; "kind 2 of 2" where the machine has no name for it. `rank` is a core's speed_rank.
std::string kind_name(const MachineMap& map, int rank);

// What a hardware thread is for.
enum class CpuRole {
  idle,
  engine,
  worker,
  sibling,   // its core works for one of the two
  excluded,  // by the user
  barred,    // by the cpuset or the affinity mask
};

// Of every hardware thread of the machine. `plan` null: nobody has asked for one.
std::map<int, CpuRole> cpu_roles(const MachineMap& map, const PinPlan* plan,
                                 const PinOptions& options);

// All that any of them gives away, for the picture. Not of none.
PinPlan all_of(const std::vector<PinPlan>& plans);

// A tree, and what of it may be used.
std::string machine_text(const MachineMap& map);
nlohmann::json machine_json(const MachineMap& map);

// Who gets what, the notes, and the lines for a config file.
std::string plan_text(const MachineMap& map, const PinPlan& plan);
nlohmann::json plan_json(const PinPlan& plan);

// The settings that make a plan come true, key and value as TOML, in the file's order.
std::vector<std::pair<std::string, std::string>> plan_settings(const PinPlan& plan);

}  // namespace tandem
