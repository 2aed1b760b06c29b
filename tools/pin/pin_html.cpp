#include "tools/pin/pin_html.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "tools/pin/pin_svg.h"
#include "tools/pin/pin_views.h"

namespace tandem {
namespace {

using Look = HtmlCell::Look;

std::string list_text(const std::vector<int>& cpus) {
  if (cpus.empty()) return "none";
  return fmt::format("{} {}", cpus.size() == 1 ? "cpu" : "cpus", format_id_list(cpus));
}

std::size_t usable_cores(const MachineMap& map) {
  return static_cast<std::size_t>(std::ranges::count_if(
      map.cores, [](const MachineCore& core) { return !core.usable().empty(); }));
}

class Page {
 public:
  Page(const PinnedMachine& machine, const Result<std::vector<PinPlan>>& plans, std::string command)
      : machine_(machine),
        map_(machine.map),
        plans_(plans),
        all_(plans ? all_of(*plans) : PinPlan{}),
        page_("tandem pin: a machine and its plan", origin_here(std::move(command))) {}

  HtmlPage build(const std::vector<ClaimedCores>* engines) {
    summary(engines == nullptr ? 0 : engines->size());
    page_.section("The plan");
    if (plans_) {
      plans();
    } else {
      page_.paragraph(fmt::format("There is none: {}.", plans_.status().message()));
    }
    page_.section("The machine");
    const PinPlan* made = plans_ ? &all_ : nullptr;
    page_.picture(machine_svg(map_, cpu_roles(map_, made, machine_.options), ""));
    limits();
    if (!map_.core_kinds.empty()) kinds();
    if (engines != nullptr) running(*engines);
    page_.condition("shown", map_.source);
    return std::move(page_);
  }

 private:
  void summary(std::size_t num_engines) {
    std::vector<HtmlFigure> figures = {
        {"cores", std::to_string(map_.cores.size()),
         plural(static_cast<std::size_t>(map_.num_threads()), "hardware thread")},
        {"that this process may use", std::to_string(usable_cores(map_))},
        {"NUMA nodes", std::to_string(map_.nodes.size())},
        {"GPUs", std::to_string(map_.gpus.size())}};
    if (map_.quota_cpus) {
      figures.push_back({"quota of CPU time", fmt::format("{:.3g} cores", *map_.quota_cpus)});
    }
    if (plans_) {
      figures.push_back({"for the engine", plural(all_.engine_cpus.size(), "core")});
      figures.push_back({"for CPU workers", plural(all_.worker_cpus().size(), "core")});
    }
    if (num_engines > 0) figures.push_back({"engines that run", std::to_string(num_engines)});
    page_.summary(figures);
  }

  std::string whom(const PinPlan& plan) const {
    if (plan.host_device) return "the host device";
    if (plan.gpus.empty()) return "a GPU that PCI does not show";
    std::vector<std::string> names;
    for (const int gpu : plan.gpus) {
      const MachineGpu& found = map_.gpus[static_cast<std::size_t>(gpu)];
      names.push_back(fmt::format("GPU {} ({}, {})", gpu, found.name,
                                  found.nodes.empty()
                                      ? std::string("node unknown")
                                      : fmt::format("node {}", fmt::join(found.nodes, " and "))));
    }
    return fmt::format("{}", fmt::join(names, " and "));
  }

  void plans() {
    HtmlRows who;
    HtmlRows settings;
    std::vector<std::string> keys = {"for"};
    for (const PinPlan& plan : *plans_) {
      const std::string gpus = plan.gpus.empty() ? plan.host_device ? "host" : "a GPU"
                                                 : "GPU " + format_id_list(plan.gpus);
      in_words(plan);
      who.push_back({{gpus, Look::text},
                     {"engine", Look::text},
                     {std::to_string(plan.engine_cpus.size()), Look::figure},
                     {format_id_list(plan.engine_cpus), Look::text},
                     {nodes_of(plan.engine_cpus), Look::text}});
      for (const PinPlan::Workers& group : plan.workers) {
        who.push_back({{gpus, Look::text},
                       {"CPU workers", Look::text},
                       {std::to_string(group.cpus.size()), Look::figure},
                       {format_id_list(group.cpus), Look::text},
                       {std::to_string(group.node), Look::text}});
      }
      std::vector<HtmlCell>& row = settings.emplace_back();
      row.push_back({gpus, Look::text});
      for (const auto& [key, value] : plan_settings(plan)) {
        if (settings.size() == 1) keys.push_back(key);
        row.push_back({value, Look::text});
      }
    }
    page_.table({"for", "who", "cores", "cpus", "node"}, who);
    page_.paragraph("In a config file (tandem pin apply --config FILE writes it there):");
    page_.table(keys, settings);
  }

  void in_words(const PinPlan& plan) {
    const std::vector<int> workers = plan.worker_cpus();
    const std::string them = workers.empty() ? "there are no CPU workers"
                             : workers.size() == 1
                                 ? fmt::format("1 CPU worker has {}", list_text(workers))
                                 : fmt::format("{} CPU workers have {}, a core each",
                                               workers.size(), list_text(workers));
    page_.paragraph(fmt::format("For {}, from node {}: the engine's threads have {}; {}.",
                                whom(plan), plan.node, list_text(plan.engine_cpus), them));
    for (const std::string& note : plan.notes) page_.paragraph("Note: " + note + ".");
  }

  std::string nodes_of(const std::vector<int>& cpus) const {
    std::vector<int> nodes;
    for (const int cpu : cpus) {
      if (const MachineCore* core = map_.find_core(cpu)) nodes.push_back(core->node);
    }
    return format_id_list(std::move(nodes));
  }

  void limits() {
    if (map_.quota_cpus) {
      page_.paragraph(fmt::format(
          "A quota leaves CPU time for {:.3g} cores{}: more threads and workers would be held up.",
          *map_.quota_cpus, map_.quota_source.empty() ? "" : " (" + map_.quota_source + ")"));
    }
    const std::size_t barred = map_.cores.size() - usable_cores(map_);
    if (barred == 0) return;
    page_.paragraph(fmt::format("Not this process's, by the cpuset or the affinity mask: {} of {}.",
                                barred, plural(map_.cores.size(), "core")));
  }

  void kinds() {
    page_.section("Kinds of cores");
    const std::vector<int> workers = all_.worker_cpus();
    HtmlRows rows;
    for (std::size_t rank = 0; rank < map_.core_kinds.size(); ++rank) {
      const MachineCoreKind& kind = map_.core_kinds[rank];
      std::vector<int> cpus;
      std::size_t cores = 0, of_engine = 0, of_workers = 0;
      for (const MachineCore& core : map_.cores) {
        if (core.speed_rank != static_cast<int>(rank)) continue;
        ++cores;
        const auto among = [&](const std::vector<int>& all) {
          return std::ranges::any_of(core.threads, [&](const MachineThread& thread) {
            return std::ranges::find(all, thread.cpu) != all.end();
          });
        };
        if (among(all_.engine_cpus)) ++of_engine;
        if (among(workers)) ++of_workers;
        for (const MachineThread& thread : core.threads) cpus.push_back(thread.cpu);
      }
      rows.push_back({{kind_name(map_, static_cast<int>(rank)), Look::text},
                      {kind.max_mhz > 0 ? fmt::format("{}", kind.max_mhz) : "", Look::figure},
                      {std::to_string(cores), Look::figure},
                      {format_id_list(std::move(cpus)), Look::text},
                      {std::to_string(of_engine), Look::figure},
                      {std::to_string(of_workers), Look::figure}});
    }
    page_.paragraph("The fastest first.");
    page_.table({"kind", "MHz", "cores", "cpus", "engine's", "workers'"}, rows);
  }

  void running(const std::vector<ClaimedCores>& engines) {
    page_.section("Who has which core now");
    if (engines.empty()) {
      page_.paragraph("No engine runs here that this user may inspect.");
      return;
    }
    HtmlRows rows;
    for (const ClaimedCores& engine : engines) {
      const std::string shared = shared_with(engine, engines);
      rows.push_back(
          {{std::to_string(engine.pid), Look::figure},
           {engine.model, Look::text},
           {engine.engine_cpus.empty() ? "any" : format_id_list(engine.engine_cpus), Look::text},
           {engine.worker_cpus.empty() ? "none" : format_id_list(engine.worker_cpus), Look::text},
           {shared.empty() ? "no other engine" : shared, shared.empty() ? Look::good : Look::bad}});
    }
    page_.table({"pid", "model", "its threads", "its CPU workers", "shares cores with"}, rows);
  }

  // "cpus 0-1 with 4711": processes that share a core get only a part of it.
  static std::string shared_with(const ClaimedCores& engine,
                                 const std::vector<ClaimedCores>& engines) {
    std::vector<std::string> texts;
    for (const ClaimedCores& other : engines) {
      if (other.pid == engine.pid) continue;
      const std::vector<int> both = common_ids(engine.cpus(), other.cpus());
      if (!both.empty()) texts.push_back(fmt::format("{}: {}", other.pid, list_text(both)));
    }
    return fmt::format("{}", fmt::join(texts, "; "));
  }

  const PinnedMachine& machine_;
  const MachineMap& map_;
  const Result<std::vector<PinPlan>>& plans_;
  const PinPlan all_;  // if there are plans
  HtmlPage page_;
};

}  // namespace

HtmlPage pin_page(const PinnedMachine& machine, const Result<std::vector<PinPlan>>& plans,
                  const std::vector<ClaimedCores>* engines, std::string command) {
  return Page(machine, plans, std::move(command)).build(engines);
}

Status write_pin_page(const std::string& path, const PinSettings& settings,
                      const PinnedMachine& machine, const Result<std::vector<PinPlan>>& plans,
                      std::string command) {
  if (path.empty()) return {};
  const bool this_machine = settings.xml.empty() && settings.synthetic.empty();
  const auto engines = this_machine ? read_core_claims() : std::vector<ClaimedCores>();
  const auto* running = this_machine ? &engines : nullptr;
  return write_output("html", path, pin_page(machine, plans, running, std::move(command)).text());
}

}  // namespace tandem
