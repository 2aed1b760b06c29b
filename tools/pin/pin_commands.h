// The commands of `tandem pin` and their common settings: the machine and the wishes for a plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/settings/settings.h"
#include "base/status.h"
#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/plan/pin_plan.h"
#include "tools/cli/flags/flags.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

struct PinSettings {
  // Machine
  std::string xml;
  std::string synthetic;
  std::vector<std::string> gpu_node;
  std::string isolated;
  // Plan
  std::int64_t workers = -1;
  std::int64_t engine_cores = -1;
  std::string exclude;
  std::int64_t node = -1;
  bool all_nodes = false;
  bool smt = false;
  // The devices, and all other settings that the server's config files may contain.
  EngineSettings engine;
  ServerSettings server;
};

// Adds the settings of a machine and of a plan, and the server's keys; of the keys of devices those
// in `offered`.
void add_pin_settings(SettingsTable& table, PinSettings& settings,
                      std::vector<std::string> offered = {});
// Adds the keys of a server's config file, so that TANDEM_CONFIG and --config may name one. Keys
// are ignored except those in `offered`, which are flags as well.
void add_server_keys(SettingsTable& table, PinSettings& settings,
                     const std::vector<std::string>& offered = {});

struct PinnedMachine {
  MachineMap map;
  PinOptions options;
};
Result<PinnedMachine> read_pinned_machine(const PinSettings& settings);

// If each of `gpus` has its own model, one plan for each, made beside those before it; else one
// plan for machine.options. On this machine each plan notes the engines that run on its cores now.
Result<std::vector<PinPlan>> plan_each(const PinSettings& settings, const PinnedMachine& machine);

int run_pin_show(const std::vector<std::string>& args);
int run_pin_plan(const std::vector<std::string>& args);
int run_pin_apply(const std::vector<std::string>& args);
int run_pin_check(const std::vector<std::string>& args);

}  // namespace tandem
