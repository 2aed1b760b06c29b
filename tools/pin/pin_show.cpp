// tandem pin show, tandem pin plan.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/pin/pin_commands.h"
#include "tools/pin/pin_html.h"
#include "tools/pin/pin_svg.h"
#include "tools/pin/pin_views.h"

namespace tandem {
namespace {

const CommandInfo kShow{
    "pin show", "[flags]",
    "Shows a machine: packages, NUMA nodes with their memory and GPUs, caches, cores and hardware\n"
    "threads, and which of them this process may use. The picture colours them by the plan that\n"
    "`tandem pin plan` makes of the same flags.",
    "  tandem pin show\n"
    "  tandem pin show --html machine.html --svg machine.svg\n"
    "  tandem pin show --synthetic 'pack:2 node:2 core:8 pu:2' --gpu-node 1"};

const CommandInfo kPlan{"pin plan", "[flags]",
                        "Chooses cores for the engine's threads and for the CPU LoRA workers: near "
                        "the GPU, one\n"
                        "hardware thread of a core, within the cgroup's cpuset and the affinity "
                        "mask. Workers get\n"
                        "cores isolated with isolcpus first, the engine never gets them; they "
                        "count if they are in\n"
                        "the affinity mask (`taskset -c LIST tandem ...`).",
                        "  tandem pin plan\n"
                        "  tandem pin plan --workers 8 --exclude 0-1\n"
                        "  tandem pin plan --gpus 0,1,2,3\n"
                        "  tandem pin plan --xml server.xml --gpus 1 --all-nodes --json"};

struct ViewSettings {
  bool json = false;
  std::string svg;
  std::string html;
  std::string command;  // as typed
};

void add_view_settings(SettingsTable& table, ViewSettings& s) {
  table.group("Output");
  table.add(s.json, "json", "print JSON instead of text").flag_only();
  table.add(s.svg, "svg", "write a picture to this file as well").meta("FILE").flag_only();
  table
      .add(s.html, "html",
           "write a page with the machine, the plan and the running engines as well")
      .meta("FILE")
      .flag_only();
}

std::string cpus_text(const std::vector<int>& cpus) {
  return fmt::format("{} {}", cpus.size() == 1 ? "cpu" : "cpus", format_id_list(cpus));
}

std::string caption_of(const PinPlan& plan) {
  const std::vector<int> workers = plan.worker_cpus();
  const std::string whom = plan.host_device    ? "the host device"
                           : plan.gpus.empty() ? "a GPU"
                                               : fmt::format("GPU {}", format_id_list(plan.gpus));
  const std::string them = workers.empty()
                               ? "no CPU workers"
                               : fmt::format("{} CPU worker{} on {}", workers.size(),
                                             workers.size() == 1 ? "" : "s", cpus_text(workers));
  return fmt::format("for {}: engine on {}; {}", whom, cpus_text(plan.engine_cpus), them);
}

std::string caption_of(const std::vector<PinPlan>& plans) {
  std::vector<std::string> captions;
  captions.reserve(plans.size());
  for (const PinPlan& plan : plans) captions.push_back(caption_of(plan));
  return fmt::format("{}", fmt::join(captions, "; "));
}

Status draw(const PinnedMachine& machine, const PinPlan* plan, const std::string& caption,
            const std::string& path) {
  if (path.empty()) return {};
  return write_output(
      "svg", path,
      machine_svg(machine.map, cpu_roles(machine.map, plan, machine.options), caption));
}

Status show(const PinSettings& settings, const ViewSettings& view) {
  TANDEM_ASSIGN(const PinnedMachine machine, read_pinned_machine(settings));
  if (!view.svg.empty() || !view.html.empty()) {
    // A machine without a plan still gets a picture.
    const Result<std::vector<PinPlan>> plans = plan_each(settings, machine);
    TANDEM_TRY(write_pin_page(view.html, settings, machine, plans, view.command));
    const PinPlan all = plans ? all_of(*plans) : PinPlan{};
    TANDEM_TRY(draw(machine, plans ? &all : nullptr,
                    plans ? caption_of(*plans) : plans.status().message(), view.svg));
  }
  fmt::print("{}",
             view.json ? machine_json(machine.map).dump(2) + "\n" : machine_text(machine.map));
  return {};
}

Status plan(const PinSettings& settings, const ViewSettings& view) {
  TANDEM_ASSIGN(const PinnedMachine machine, read_pinned_machine(settings));
  TANDEM_ASSIGN(const std::vector<PinPlan> plans, plan_each(settings, machine));
  TANDEM_TRY(write_pin_page(view.html, settings, machine, plans, view.command));
  const PinPlan all = all_of(plans);
  TANDEM_TRY(draw(machine, &all, caption_of(plans), view.svg));
  if (!view.json) {
    for (const PinPlan& each : plans) {
      fmt::print("{}{}", &each == plans.data() ? "" : "\n", plan_text(machine.map, each));
    }
    return {};
  }
  nlohmann::json json = nlohmann::json::array();
  for (const PinPlan& each : plans) json.push_back(plan_json(each));
  fmt::print("{}\n", (json.size() == 1 ? json.front() : nlohmann::json({{"plans", json}})).dump(2));
  return {};
}

int run(const CommandInfo& info, Status (*command)(const PinSettings&, const ViewSettings&),
        const std::vector<std::string>& args) {
  PinSettings settings;
  ViewSettings view;
  view.command = fmt::format("tandem {} {}", info.name, fmt::join(args, " "));
  SettingsTable table;
  add_view_settings(table, view);
  add_pin_settings(table, settings);
  if (const auto status = read_settings(info, std::move(table), args)) return *status;
  if (Status status = command(settings, view); !status) return report_failure(info, status);
  return kExitOk;
}

}  // namespace

int run_pin_show(const std::vector<std::string>& args) {
  return run(kShow, show, args);
}
int run_pin_plan(const std::vector<std::string>& args) {
  return run(kPlan, plan, args);
}

}  // namespace tandem
