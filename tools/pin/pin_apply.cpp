// tandem pin apply.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>

#include "base/file/file.h"
#include "base/settings/toml_edit.h"
#include "cpu_lora/placement/detached.h"
#include "cpu_lora/placement/placement.h"
#include "cpu_lora/placement/worker_slot_choice.h"
#include "cpu_lora/worker_pool/process.h"
#include "tools/pin/pin_commands.h"
#include "tools/pin/pin_views.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "pin apply", "--config FILE | --engine PID [flags]",
    "With --config it writes the plan that `tandem pin plan` makes of the same flags into a "
    "config\n"
    "file: cpus, worker_cpus and cpu_workers; the rest of the file is kept. With --engine it "
    "starts\n"
    "the CPU workers that a running engine lacks, or --workers N of them, on free cores. They end\n"
    "with the engine. Run it as the engine's user.",
    "  tandem pin apply --config server.toml --exclude 0-1\n"
    "  tandem pin apply --engine 4711\n"
    "  tandem pin apply --engine 4711 --workers 2"};

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{1} << 20;
constexpr std::chrono::seconds kStartTime(10);
constexpr std::chrono::milliseconds kPollTime(5);

// Refuses a key of the file that would undo the plan.
Status check_conflicts(const PinSettings& settings, const PinPlan& plan, const std::string& path) {
  const auto threads = static_cast<std::size_t>(settings.engine.threads);
  if (plan.host_device && settings.engine.pin && threads > plan.engine_cpus.size()) {
    return invalid(
        "{}: threads = {} is more than the {} cores of the plan; remove that line, or "
        "give --engine-cores {}",
        path, threads, plan.engine_cpus.size(), threads);
  }
  return {};
}

Status apply_to_config(const PinSettings& settings, const std::string& path) {
  TANDEM_ASSIGN(const PinnedMachine machine, read_pinned_machine(settings));
  TANDEM_ASSIGN(const std::vector<PinPlan> plans, plan_each(settings, machine));
  if (plans.size() > 1) {
    return invalid("gpus: {} is the file of one engine, and {} names several; name one of them",
                   path, settings.engine.gpus);
  }
  const PinPlan& plan = plans.front();
  TANDEM_TRY(check_conflicts(settings, plan, path));
  TANDEM_ASSIGN(const std::string before, read_text_file(path, kMaxConfigBytes));
  TANDEM_ASSIGN(const std::string after, set_toml_values(before, path, plan_settings(plan)));
  if (after != before) TANDEM_TRY(replace_file(path, after));
  fmt::print("{} {}:\n", path, after == before ? "has it already" : "now has");
  for (const auto& [key, value] : plan_settings(plan)) fmt::print("  {} = {}\n", key, value);
  for (const std::string& note : plan.notes) fmt::print("note: {}\n", note);
  if (plan.host_device && !settings.engine.pin) {
    fmt::print("note: pin = false in it leaves the compute threads unpinned all the same\n");
  }
  return {};
}

struct Started {
  WorkerSlotChoice choice;
  DetachedProcess process;
  bool up = false;
};

Result<std::vector<Started>> start_all(const ControlInfo& info,
                                       const std::vector<WorkerSlotChoice>& choices,
                                       double spin_ms) {
  std::vector<Started> started;
  for (const WorkerSlotChoice& choice : choices) {
    const ControlInfo::Group& group = info.groups[static_cast<std::size_t>(choice.group)];
    const std::vector<std::string> arguments = {"worker",
                                                "--inbox",
                                                group.inbox,
                                                "--outbox",
                                                group.outbox,
                                                "--arena",
                                                group.arena,
                                                "--worker-slot",
                                                std::to_string(choice.worker_slot),
                                                "--cpu",
                                                std::to_string(choice.cpu),
                                                "--node",
                                                std::to_string(group.node),
                                                "--spin-ms",
                                                fmt::format("{}", spin_ms),
                                                "--engine-pid",
                                                std::to_string(info.pid)};
    TANDEM_ASSIGN(DetachedProcess process,
                  DetachedProcess::start(arguments, harmless_environment()));
    started.push_back({choice, std::move(process)});
  }
  return started;
}

// Waits until each worker has taken its worker slot or ended, or until the timeout.
Status wait_for_all(const ControlInfo& info, std::vector<Started>& started) {
  std::vector<Mailbox> mailboxes;
  for (const ControlInfo::Group& group : info.groups) {
    TANDEM_ASSIGN(Mailbox mailbox, Mailbox::open(group.inbox, group.outbox));
    mailboxes.push_back(std::move(mailbox));
  }
  const auto deadline = std::chrono::steady_clock::now() + kStartTime;
  while (std::chrono::steady_clock::now() < deadline) {
    bool waiting = false;
    for (Started& one : started) {
      if (one.up || one.process.has_ended()) continue;
      const WorkerSlot& worker_slot =
          mailboxes[static_cast<std::size_t>(one.choice.group)].worker_slot(one.choice.worker_slot);
      const WorkerSlotState state = worker_slot.state.load(std::memory_order_relaxed);
      one.up = worker_slot.pid.load(std::memory_order_relaxed) ==
                   static_cast<std::uint32_t>(one.process.pid()) &&
               (state == WorkerSlotState::working || state == WorkerSlotState::sleeping);
      waiting = waiting || !one.up;
    }
    if (!waiting) return {};
    std::this_thread::sleep_for(kPollTime);
  }
  return {};
}

Status apply_to_engine(const PinSettings& settings, int pid, double spin_ms) {
  if (!settings.xml.empty() || !settings.synthetic.empty()) {
    return invalid("engine: a running engine is on this machine; leave out --xml and --synthetic");
  }
  TANDEM_ASSIGN(const ObservedEngine engine, observe_engine(pid));
  if (engine.info.groups.empty()) {
    return error(StatusCode::unavailable,
                 "engine {} has no place for workers; start it with --cpu-workers N and an "
                 "adapter_mode that uses them (cpu_assist, planned)",
                 pid);
  }
  TANDEM_ASSIGN(const PinnedMachine machine, read_pinned_machine(settings));
  const WorkerSlotChoices choices = choose_worker_slots(engine, machine.map, machine.options);
  for (const std::string& note : choices.notes) fmt::print("note: {}\n", note);
  if (choices.worker_slots.empty()) {
    if (!choices.notes.empty()) return error(StatusCode::unavailable, "no worker can be started");
    fmt::print("engine {}: every worker that it means is there; --workers N starts more\n", pid);
    return {};
  }
  TANDEM_ASSIGN(std::vector<Started> started,
                start_all(engine.info, choices.worker_slots, spin_ms));
  TANDEM_TRY(wait_for_all(engine.info, started));
  std::size_t up = 0;
  for (Started& one : started) {
    const std::string what =
        one.up                                         ? "up"
        : one.process.exit_status() == kExitEngineGone ? "its engine has ended"
        : one.process.has_ended()
            ? one.process.last_words()
            : fmt::format("not up after {} s, still starting", kStartTime.count());
    fmt::print("  group {} worker slot {}: worker {} on cpu {}: {}\n", one.choice.group,
               one.choice.worker_slot, one.process.pid(), one.choice.cpu, what);
    up += one.up ? 1 : 0;
  }
  fmt::print("engine {}: {} of {} workers came up\n", pid, up, started.size());
  if (up < started.size()) {
    return error(StatusCode::unavailable, "{} of {} workers did not start", started.size() - up,
                 started.size());
  }
  return {};
}

}  // namespace

int run_pin_apply(const std::vector<std::string>& args) {
  PinSettings settings;
  std::int64_t engine = 0;
  SettingsTable table;
  table.group("Apply");
  table.add(engine, "engine", "process id of the engine to start workers for")
      .meta("PID")
      .range(0, 1 << 30)
      .flag_only();
  add_pin_settings(table, settings, {"worker_spin_ms"});
  std::string config;
  if (const auto status = read_settings(kInfo, std::move(table), args, {.config = &config}))
    return *status;
  if (config.empty() && engine == 0) {
    fmt::print(stderr,
               "tandem pin apply: nothing to apply to; give --config FILE or --engine PID\n");
    return kExitUsage;
  }
  Status status = config.empty() ? Status() : apply_to_config(settings, config);
  if (status && engine != 0) {
    status = apply_to_engine(settings, static_cast<int>(engine),
                             settings.engine.options.handoff.spin_ms);
  }
  return status ? kExitOk : report_failure(kInfo, status);
}

}  // namespace tandem
