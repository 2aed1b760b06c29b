// tandem pin: selects the subcommand, and contains the code that the subcommands share.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpu/cuda/cuda_device.h"
#include "tools/pin/pin.h"
#include "tools/pin/pin_commands.h"
#include "tools/setup/core_setup.h"
#include "tools/setup/gpus.h"

namespace tandem {
namespace {

constexpr Subcommand kPinCommands[] = {
    {"show", "print packages, NUMA nodes, caches, cores and GPUs as text, JSON or a picture",
     run_pin_show},
    {"plan", "choose cores for the engine and for CPU workers, with reasons", run_pin_plan},
    {"apply", "write the plan into a config file, or start workers for a running engine",
     run_pin_apply},
    {"check", "check that the workers of running engines are on their planned cores",
     run_pin_check},
};

// The GPUs of `gpus` if each has its own model; empty if they share one.
Result<std::vector<int>> gpus_apart(const EngineSettings& engine) {
  if (engine.tensor_parallel > 1) return std::vector<int>();
  Result<std::vector<int>> gpus = parse_id_list(engine.gpus);
  if (!gpus) return gpus.status().with_context("gpus");
  return gpus;
}

// Adds a note for each engine that runs on the plan's cores now.
void tell_of_engines(PinPlan& plan) {
  const std::vector<int> ours = plan.cpus();
  for (const CoreClaim& claim : claims_of_others()) {
    const std::vector<int> shared = common_ids(ours, claim.cpus());
    if (shared.empty()) continue;
    plan.facts.push_back(
        fmt::format("{} runs on cpus {} of these now", claim.whose, format_id_list(shared)));
  }
}

}  // namespace

void add_pin_settings(SettingsTable& table, PinSettings& s, std::vector<std::string> offered) {
  table.group("Machine");
  table.add(s.xml, "xml", "description of another machine by hwloc (`lstopo FILE.xml`)")
      .meta("FILE")
      .flag_only();
  table
      .add(s.synthetic, "synthetic",
           "description of an imaginary machine, as in \"pack:2 node:2 core:8 pu:2\"")
      .flag_only();
  table.add(s.gpu_node, "gpu_node", "NUMA node of a GPU of that machine; may be repeated")
      .meta("N")
      .flag_only();
  table.add(s.isolated, "isolated", "cpus that are isolated on that machine, as by isolcpus")
      .meta("LIST")
      .flag_only();
  table.group("Plan");
  table.add(s.workers, "workers", "CPU workers, one core each; -1: chosen")
      .range(-1, kMaxPlannedWorkers)
      .flag_only();
  table.add(s.engine_cores, "engine_cores", "cores for the engine's threads; -1: chosen")
      .range(-1, 4096)
      .flag_only();
  table
      .add(s.exclude, "exclude",
           "cpus not to use, as in 0-3,8; without --smt their whole cores are not used")
      .meta("LIST")
      .flag_only();
  table.add(s.node, "node", "NUMA node for the engine and its workers; -1: that of the GPU")
      .range(-1, 1 << 20)
      .flag_only();
  table.add(s.all_nodes, "all_nodes", "use further nodes when cores run out, nearest first")
      .flag_only();
  table.add(s.smt, "smt", "use SMT siblings when cores run out").flag_only();
  offered.insert(offered.end(), {"device", "gpus", "tensor_parallel", "slow_cores"});
  add_server_keys(table, s, offered);
}

void add_server_keys(SettingsTable& table, PinSettings& s,
                     const std::vector<std::string>& offered) {
  s.engine.model = "none";  // the server requires a model
  const std::size_t first = table.fields().size();
  add_serve_settings(table, s.engine, s.server);
  for (std::size_t i = first; i < table.fields().size(); ++i) {
    SettingsField& field = table.fields()[i];
    const auto found = std::find(offered.begin(), offered.end(), field.facts().key);
    if (found == offered.end()) field.in_file_only();
  }
}

Result<PinnedMachine> read_pinned_machine(const PinSettings& settings) {
  MachineOptions machine;
  machine.xml = settings.xml;
  machine.synthetic = settings.synthetic;
  for (const std::string& text : settings.gpu_node) {
    TANDEM_ASSIGN(const std::vector<int> nodes, parse_id_list(text));
    machine.gpu_nodes.insert(machine.gpu_nodes.end(), nodes.begin(), nodes.end());
  }
  if (!settings.isolated.empty()) {
    if (settings.xml.empty() && settings.synthetic.empty()) {
      return invalid(
          "isolated: the kernel tells which cpus of this machine are isolated; leave it out");
    }
    TANDEM_ASSIGN(machine.isolated_cpus, parse_id_list(settings.isolated));
  }
  PinnedMachine made;
  TANDEM_ASSIGN(made.map, read_machine(machine));

  const bool this_machine = settings.xml.empty() && settings.synthetic.empty();
  const bool has_gpu = !made.map.gpus.empty() || (this_machine && !list_cuda_gpus().empty());
  PinOptions& options = made.options;
  options.host_device =
      settings.engine.device == "host" || (settings.engine.device == "auto" && !has_gpu);
  options.workers = static_cast<int>(settings.workers);
  options.engine_cores = settings.engine_cores == 0 ? 1 : static_cast<int>(settings.engine_cores);
  TANDEM_ASSIGN(options.exclude, parse_id_list(settings.exclude));
  options.slow_cores = settings.engine.slow_cores;
  options.node = static_cast<int>(settings.node);
  options.all_nodes = settings.all_nodes;
  options.smt = settings.smt;
  TANDEM_ASSIGN(const std::vector<int> apart, gpus_apart(settings.engine));
  EngineSettings engine = settings.engine;
  if (!apart.empty()) engine.gpus = std::to_string(apart.front());
  // If PCI shows no GPU, the plan is for a GPU only if `gpus` names one.
  if (!options.host_device && (!made.map.gpus.empty() || !engine.gpus.empty())) {
    TANDEM_ASSIGN(options.gpus, chosen_gpus(engine));
  }
  return made;
}

Result<std::vector<PinPlan>> plan_each(const PinSettings& settings, const PinnedMachine& machine) {
  TANDEM_ASSIGN(std::vector<int> gpus, gpus_apart(settings.engine));
  if (machine.options.host_device || gpus.size() < 2) gpus.resize(1);
  std::vector<PinPlan> plans;
  PinOptions options = machine.options;
  for (const int gpu : gpus) {
    if (gpus.size() > 1) options.gpus = {gpu};
    TANDEM_ASSIGN(PinPlan plan, plan_pinning(machine.map, options));
    options.claims.push_back(
        {fmt::format("the plan of GPU {}", gpu), plan.engine_cpus, plan.worker_cpus()});
    plans.push_back(std::move(plan));
  }
  if (settings.xml.empty() && settings.synthetic.empty()) {
    for (PinPlan& plan : plans) tell_of_engines(plan);
  }
  return plans;
}

int run_pin(const std::vector<std::string>& args) {
  return run_subcommand(
      {"tandem pin", "command", "Usage: tandem pin COMMAND [flags]\n\nCommands:\n",
       "\nshow and plan read this machine, one that hwloc has described (--xml FILE), or an\n"
       "imaginary one (--synthetic TEXT). `tandem pin COMMAND --help` lists the flags.\n",
       kPinCommands},
      args);
}

}  // namespace tandem
