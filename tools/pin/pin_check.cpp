// tandem pin check.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cpu_lora/placement/placement.h"
#include "shm/region.h"
#include "tools/pin/pin_commands.h"

namespace tandem {
namespace {

const CommandInfo kInfo{
    "pin check", "[--engine PID] [flags]",
    "Compares running engines with their plan, as the kernel reports them: the cpus on which "
    "their\n"
    "threads and CPU workers may run and were last seen, and the NUMA nodes of their memory,\n"
    "mailboxes and adapter weights. Prints each difference with its remedy. Exit status 1 if "
    "there\n"
    "is a difference, or no engine.",
    "  tandem pin check\n"
    "  tandem pin check --engine 4711 --json"};

struct Checked {
  ObservedEngine engine;
  std::vector<Drift> drift;
};

std::string_view to_string(WorkerSlotState state) {
  switch (state) {
    case WorkerSlotState::empty:
      return "empty";
    case WorkerSlotState::starting:
      return "starting";
    case WorkerSlotState::working:
      return "working";
    case WorkerSlotState::sleeping:
      return "sleeping";
  }
  return "damaged";  // any worker may write the state
}

std::string pages_text(const PagesByNode& pages) {
  std::string text;
  for (const auto& [node, count] : pages) {
    text += fmt::format("{}{:.0f} % node {}", text.empty() ? "" : ", ", 100 * share_on(pages, node),
                        node);
  }
  return text;
}

std::string cpu_text(int cpu) {
  return cpu < 0 ? "-" : std::to_string(cpu);
}

// Whether the nodes of all memory that belongs on one node can be read.
bool all_regions_are_known(const ObservedEngine& engine) {
  return std::ranges::all_of(engine.regions, [&](const ObservedRegion& region) {
    return region.problem.empty() ||
           engine.info.groups[static_cast<std::size_t>(region.group)].node < 0;
  });
}

std::string report_text(const Checked& checked) {
  const ControlInfo& info = checked.engine.info;
  std::string out = fmt::format("engine {}", info.pid);
  if (!info.model.empty()) out += fmt::format(" ({})", info.model);
  if (!info.engine_cpus.empty()) {
    out += fmt::format(": its own threads on cpus {}", format_id_list(info.engine_cpus));
  }
  out += "\n";
  if (checked.engine.workers.empty()) out += "  no CPU workers\n";
  std::size_t groups = info.groups.size();
  for (std::size_t g = 0; g < groups; ++g) {
    const int group = static_cast<int>(g);
    bool headed = false;
    for (const ObservedWorker& worker : checked.engine.workers) {
      if (worker.group != group) continue;
      if (!headed) {
        const int node = info.groups[g].node;
        out += fmt::format("  group {}{}\n    {:>4} {:>9} {:>5} {:>10} {:>8} {:>9}  {}\n", group,
                           node < 0 ? "" : fmt::format(", node {}", node), "slot", "pid", "cpu",
                           "may run on", "last on", "state", "own memory");
        headed = true;
      }
      const int cpu =
          worker.claimed_cpu >= 0 && worker.pid > 0 ? worker.claimed_cpu : worker.meant_cpu;
      out += fmt::format("    {:>4} {:>9} {:>5} {:>10} {:>8} {:>9}  {}\n", worker.worker_slot,
                         worker.pid > 0 ? std::to_string(worker.pid) : "-", cpu_text(cpu),
                         worker.alive ? format_id_list(worker.allowed) : "-",
                         cpu_text(worker.last_cpu),
                         worker.pid <= 0 ? "missing"
                         : !worker.alive ? "ended"
                                         : to_string(worker.state),
                         pages_text(worker.own_pages));
    }
    for (const ObservedRegion& region : checked.engine.regions) {
      if (region.group != group) continue;
      out += fmt::format(
          "    {:<7} {}\n", region.what,
          region.problem.empty() ? pages_text(region.pages) : "unknown: " + region.problem);
    }
  }
  for (const Drift& drift : checked.drift) {
    out += fmt::format("  drift: {}\n    remedy: {}\n", drift.what, drift.remedy);
  }
  if (checked.drift.empty()) {
    out +=
        all_regions_are_known(checked.engine)
            ? "  ok: all is where it belongs\n"
            : "  ok so far: what can be seen is where it belongs; the rest is unknown, see above\n";
  }
  return out;
}

nlohmann::json pages_json(const PagesByNode& pages) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [node, count] : pages) out[std::to_string(node)] = count;
  return out;
}

nlohmann::json report_json(const Checked& checked) {
  const ControlInfo& info = checked.engine.info;
  nlohmann::json workers = nlohmann::json::array();
  for (const ObservedWorker& worker : checked.engine.workers) {
    workers.push_back({{"group", worker.group},
                       {"node", info.groups[static_cast<std::size_t>(worker.group)].node},
                       {"worker_slot", worker.worker_slot},
                       {"pid", worker.pid},
                       {"alive", worker.alive},
                       {"state", to_string(worker.state)},
                       {"cpu", worker.claimed_cpu},
                       {"meant_cpu", worker.meant_cpu},
                       {"allowed_cpus", worker.allowed},
                       {"last_cpu", worker.last_cpu},
                       {"own_pages", pages_json(worker.own_pages)}});
  }
  nlohmann::json regions = nlohmann::json::array();
  for (const ObservedRegion& region : checked.engine.regions) {
    regions.push_back({{"group", region.group},
                       {"what", region.what},
                       {"name", region.name},
                       {"sampled_pages", pages_json(region.pages)},
                       {"problem", region.problem}});
  }
  nlohmann::json drifts = nlohmann::json::array();
  for (const Drift& drift : checked.drift) {
    drifts.push_back({{"what", drift.what}, {"remedy", drift.remedy}});
  }
  nlohmann::json threads = nlohmann::json::array();
  for (const ThreadPlace& thread : checked.engine.threads) {
    threads.push_back(
        {{"tid", thread.tid}, {"allowed_cpus", thread.allowed}, {"last_cpu", thread.last_cpu}});
  }
  return {{"pid", info.pid},
          {"model", info.model},
          {"engine_cpus", info.engine_cpus},
          {"threads", std::move(threads)},
          {"workers", std::move(workers)},
          {"regions", std::move(regions)},
          {"drift", std::move(drifts)}};
}

// Engines without CPU workers have no control region, but have their adapters in shared memory.
std::vector<int> list_engines_without_workers() {
  const std::vector<int> others = list_engines();
  std::vector<int> pids;
  for (const FoundShmRegion& found : find_shm_regions("adapters")) {
    if (std::ranges::find(others, found.maker) == others.end()) pids.push_back(found.maker);
  }
  std::ranges::sort(pids);
  return pids;
}

Result<ObservedEngine> observe(int pid) {
  Result<ObservedEngine> engine = observe_engine(pid);
  if (engine || engine.status().code() != StatusCode::not_found) return engine;
  const std::vector<int> plain = list_engines_without_workers();
  if (std::ranges::find(plain, pid) == plain.end()) return engine;
  ObservedEngine without;
  without.info.pid = pid;
  TANDEM_ASSIGN(without.threads, read_thread_places(pid));
  return without;
}

Result<std::vector<Checked>> check(int pid) {
  std::vector<int> pids = {pid};
  if (pid == 0) {
    pids = list_engines();
    std::ranges::copy(list_engines_without_workers(), std::back_inserter(pids));
  }
  MachineOptions options;
  options.gpus = false;
  TANDEM_ASSIGN(const MachineMap machine, read_machine(options));
  const std::vector<ClaimedCores> claims = read_core_claims();
  std::vector<Checked> all;
  for (const int each : pids) {
    Result<ObservedEngine> engine = observe(each);
    if (!engine) {
      // When all engines are checked, one may end meanwhile.
      if (pid == 0 && engine.status().code() == StatusCode::not_found) continue;
      if (pid == 0 && engine.status().code() == StatusCode::unavailable) {
        fmt::print(stderr, "tandem pin check: {}\n", engine.status().message());
        continue;
      }
      return engine.status();
    }
    std::vector<Drift> drift = find_drift(*engine, machine);
    std::ranges::move(find_overlaps(each, claims), std::back_inserter(drift));
    all.push_back({*std::move(engine), std::move(drift)});
  }
  if (all.empty()) {
    return error(StatusCode::not_found,
                 "no engine runs here that this user may inspect; start one by `tandem serve`, or "
                 "run this as the engine's user or root");
  }
  return all;
}

}  // namespace

int run_pin_check(const std::vector<std::string>& args) {
  std::int64_t engine = 0;
  bool json = false;
  SettingsTable table;
  table.group("Check");
  table.add(engine, "engine", "process id of the engine to check; 0: all engines")
      .meta("PID")
      .range(0, 1 << 30)
      .flag_only();
  table.add(json, "json", "print JSON instead of text").flag_only();
  PinSettings unused;
  add_server_keys(table, unused);
  if (const auto status = read_settings(kInfo, std::move(table), args)) return *status;
  const Result<std::vector<Checked>> checked = check(static_cast<int>(engine));
  if (!checked) return report_failure(kInfo, checked.status());
  bool ok = true;
  nlohmann::json all = nlohmann::json::array();
  for (const Checked& one : *checked) {
    ok = ok && one.drift.empty();
    if (json) {
      all.push_back(report_json(one));
    } else {
      fmt::print("{}", report_text(one));
    }
  }
  if (json) fmt::print("{}\n", nlohmann::json({{"ok", ok}, {"engines", std::move(all)}}).dump(2));
  return ok ? kExitOk : kExitFailure;
}

}  // namespace tandem
