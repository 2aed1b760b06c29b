#include "tools/pin/pin_views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "tools/report/machine_boxes.h"

namespace tandem {

std::string plural(std::size_t count, const char* word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string kind_name(const MachineMap& map, int rank) {
  const std::string& name = map.core_kinds[static_cast<std::size_t>(rank)].name;
  return name.empty() ? fmt::format("kind {} of {}", rank + 1, map.core_kinds.size()) : name;
}

namespace {

// Lines of the tree: the object on the left, its details on the right.
using Rows = std::vector<std::pair<std::string, std::string>>;

std::vector<int> cpus_of_kind(const MachineMap& map, int rank) {
  std::vector<int> cpus;
  for (const MachineCore& core : map.cores) {
    if (core.speed_rank != rank) continue;
    for (const MachineThread& thread : core.threads) cpus.push_back(thread.cpu);
  }
  return cpus;
}

// "kinds of cores, fastest first: IntelCore (5.8 GHz at most) cpus 0-15, ..."
std::string kinds_text(const MachineMap& map) {
  std::vector<std::string> kinds;
  for (int rank = 0; rank < std::ssize(map.core_kinds); ++rank) {
    const int mhz = map.core_kinds[static_cast<std::size_t>(rank)].max_mhz;
    kinds.push_back(fmt::format("{}{} cpus {}", kind_name(map, rank),
                                mhz > 0 ? fmt::format(" ({:.2g} GHz at most)", mhz / 1000.0) : "",
                                format_id_list(cpus_of_kind(map, rank))));
  }
  return fmt::format("kinds of cores, fastest first: {}\n", fmt::join(kinds, "; "));
}

// Cores of a box that are alike share a row.
void add_cores(const MachineMap& map, const MachineBox& box, Rows& rows) {
  struct Group {
    int speed_rank;
    std::string caches;
    std::vector<std::string> uses;  // of its threads
    std::vector<int> cores, first, siblings;
  };
  std::vector<Group> groups;
  for (const MachineCore* core : box.cores) {
    const std::string caches = private_caches(map, *core);
    std::vector<std::string> uses;
    for (const MachineThread& thread : core->threads) {
      std::string use(thread.use == CpuUse::usable ? "" : to_string(thread.use));
      if (thread.isolated) use += use.empty() ? "isolated" : ", isolated";
      uses.push_back(std::move(use));
    }
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& known) {
      return known.speed_rank == core->speed_rank && known.caches == caches && known.uses == uses;
    });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), {core->speed_rank, caches, uses, {}, {}, {}});
    }
    group->cores.push_back(core->id);
    for (std::size_t i = 0; i < core->threads.size(); ++i) {
      (i == 0 ? group->first : group->siblings).push_back(core->threads[i].cpu);
    }
  }
  for (const Group& group : groups) {
    const bool one = group.cores.size() == 1;
    std::string text = fmt::format("{} {}", one ? "cpu" : "cpus", format_id_list(group.first));
    if (!group.siblings.empty()) {
      text += fmt::format(", {} {}", group.siblings.size() == 1 ? "sibling" : "siblings",
                          format_id_list(group.siblings));
    }
    if (!group.caches.empty()) text += fmt::format("; {}{}", one ? "" : "each ", group.caches);
    if (!map.core_kinds.empty()) text += "; " + kind_name(map, group.speed_rank);
    std::vector<std::string> uses = group.uses;
    uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
    for (std::string& use : uses) {
      if (use.empty()) use = "usable";
    }
    if (uses != std::vector<std::string>{"usable"})
      text += fmt::format("; {}", fmt::join(uses, " / "));
    rows.emplace_back(fmt::format("{} {}", one ? "core" : "cores", format_id_list(group.cores)),
                      text);
  }
}

void add_rows(const MachineMap& map, const MachineBox& box, const std::string& indent, Rows& rows) {
  Rows leaves;
  for (const MachineGpu* gpu : box.gpus) {
    leaves.emplace_back(fmt::format("GPU {}", gpu->index),
                        fmt::format("{}{}{}", gpu->name, gpu->pci.empty() ? "" : ", ", gpu->pci));
  }
  add_cores(map, box, leaves);
  const bool top = box.kind == MachineBox::Kind::machine;
  const std::size_t count = leaves.size() + box.boxes.size();
  std::size_t index = 0;
  const auto branch = [&](bool last) { return top ? "" : last ? "└─ " : "├─ "; };
  for (auto& [name, text] : leaves) {
    rows.emplace_back(fmt::format("{}{}{}", indent, branch(++index == count), name),
                      std::move(text));
  }
  for (const MachineBox& inner : box.boxes) {
    const bool last = ++index == count;
    rows.emplace_back(fmt::format("{}{}{}", indent, branch(last), inner.name), inner.detail);
    add_rows(map, inner, indent + (top ? "" : last ? "   " : "│  "), rows);
  }
}

// Counts characters and not bytes: the tree's branches have three bytes each.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string gpu_text(const MachineGpu& gpu) {
  return fmt::format("GPU {} ({}{})", gpu.index, gpu.name,
                     gpu.nodes.empty() ? std::string(", node unknown")
                                       : fmt::format(", node {}", fmt::join(gpu.nodes, " and ")));
}

}  // namespace

std::map<int, CpuRole> cpu_roles(const MachineMap& map, const PinPlan* plan,
                                 const PinOptions& options) {
  std::map<int, CpuRole> roles;
  const auto has = [](const std::vector<int>& cpus, int cpu) {
    return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end();
  };
  const std::vector<int> workers = plan == nullptr ? std::vector<int>{} : plan->worker_cpus();
  for (const MachineCore& core : map.cores) {
    bool used = false;
    const bool barred = !options.smt && std::any_of(core.threads.begin(), core.threads.end(),
                                                    [&](const MachineThread& thread) {
                                                      return has(options.exclude, thread.cpu);
                                                    });
    for (const MachineThread& thread : core.threads) {
      CpuRole role = CpuRole::idle;
      if (plan != nullptr && has(plan->engine_cpus, thread.cpu)) {
        role = CpuRole::engine;
      } else if (has(workers, thread.cpu)) {
        role = CpuRole::worker;
      } else if (thread.use != CpuUse::usable) {
        role = CpuRole::barred;
      } else if (barred || has(options.exclude, thread.cpu)) {
        role = CpuRole::excluded;
      }
      used = used || role == CpuRole::engine || role == CpuRole::worker;
      roles[thread.cpu] = role;
    }
    for (const MachineThread& thread : core.threads) {
      CpuRole& role = roles[thread.cpu];
      if (used && role == CpuRole::idle) role = CpuRole::sibling;
    }
  }
  return roles;
}

PinPlan all_of(const std::vector<PinPlan>& plans) {
  PinPlan all = plans.front();
  for (std::size_t i = 1; i < plans.size(); ++i) {
    std::ranges::copy(plans[i].engine_cpus, std::back_inserter(all.engine_cpus));
    std::ranges::copy(plans[i].workers, std::back_inserter(all.workers));
  }
  return all;
}

std::string machine_text(const MachineMap& map) {
  std::string out =
      fmt::format("{}: {}{}, {}, {}, {}\n\n", map.source,
                  map.packages.empty() ? "" : plural(map.packages.size(), "package") + ", ",
                  plural(map.nodes.size(), "NUMA node"), plural(map.cores.size(), "core"),
                  plural(static_cast<std::size_t>(map.num_threads()), "hardware thread"),
                  map.gpus.empty() ? "no NVIDIA GPU" : plural(map.gpus.size(), "GPU"));
  Rows rows;
  add_rows(map, make_boxes(map), "", rows);
  std::size_t width = 0;
  for (const auto& [name, text] : rows) width = std::max(width, width_of(name));
  for (const auto& [name, text] : rows) {
    out += text.empty()
               ? name + "\n"
               : fmt::format("{}{}  {}\n", name, std::string(width - width_of(name), ' '), text);
  }
  std::vector<int> usable;
  std::vector<int> isolated;
  std::size_t cores = 0;
  for (const MachineCore& core : map.cores) {
    const std::vector<int> cpus = core.usable();
    cores += cpus.empty() ? 0 : 1;
    usable.insert(usable.end(), cpus.begin(), cpus.end());
    for (const MachineThread& thread : core.threads) {
      if (thread.isolated) isolated.push_back(thread.cpu);
    }
  }
  out += usable.empty() ? "\nusable by this process: none\n"
                        : fmt::format("\nusable by this process: cpus {} ({})\n",
                                      format_id_list(usable), plural(cores, "core"));
  if (!isolated.empty())
    out += fmt::format("isolated (isolcpus): cpus {}\n", format_id_list(isolated));
  if (!map.core_kinds.empty()) out += kinds_text(map);
  if (map.quota_cpus) {
    out += fmt::format("CPU time: {:.4g} cores at most ({})\n", *map.quota_cpus, map.quota_source);
  }
  for (const MachineGpu& gpu : map.gpus) {
    if (gpu.nodes.empty())
      out += fmt::format("the machine does not say where GPU {} is\n", gpu.index);
  }
  return out;
}

nlohmann::json machine_json(const MachineMap& map) {
  nlohmann::json out = {
      {"source", map.source}, {"quota_cpus", nullptr}, {"quota_source", map.quota_source}};
  if (map.quota_cpus) out["quota_cpus"] = *map.quota_cpus;
  for (const char* key : {"packages", "nodes", "caches", "cores", "core_kinds", "gpus"}) {
    out[key] = nlohmann::json::array();
  }
  for (const MachinePackage& package : map.packages) {
    out["packages"].push_back({{"id", package.id}, {"name", package.name}});
  }
  for (const MachineNode& node : map.nodes) {
    out["nodes"].push_back({{"id", node.id},
                            {"package", node.package},
                            {"memory_bytes", node.memory_bytes},
                            {"memory_node", node.memory_node},
                            {"nearest", node.nearest}});
  }
  for (const MachineCache& cache : map.caches) {
    out["caches"].push_back({{"level", cache.level},
                             {"instructions", cache.instructions},
                             {"bytes", cache.bytes},
                             {"cpus", cache.cpus}});
  }
  for (const MachineCore& core : map.cores) {
    nlohmann::json threads = nlohmann::json::array();
    for (const MachineThread& thread : core.threads) {
      threads.push_back(
          {{"cpu", thread.cpu}, {"use", to_string(thread.use)}, {"isolated", thread.isolated}});
    }
    out["cores"].push_back({{"id", core.id},
                            {"package", core.package},
                            {"node", core.node},
                            {"speed_rank", core.speed_rank},
                            {"threads", std::move(threads)}});
  }
  for (int rank = 0; rank < std::ssize(map.core_kinds); ++rank) {
    const MachineCoreKind& kind = map.core_kinds[static_cast<std::size_t>(rank)];
    out["core_kinds"].push_back({{"speed_rank", rank},
                                 {"name", kind.name},
                                 {"max_mhz", kind.max_mhz},
                                 {"cpus", cpus_of_kind(map, rank)}});
  }
  for (const MachineGpu& gpu : map.gpus) {
    out["gpus"].push_back(
        {{"index", gpu.index}, {"name", gpu.name}, {"pci", gpu.pci}, {"nodes", gpu.nodes}});
  }
  return out;
}

std::string gpus_text(const MachineMap& map, const std::vector<int>& gpus) {
  std::vector<std::string> texts;
  texts.reserve(gpus.size());
  for (const int gpu : gpus) texts.push_back(gpu_text(map.gpus[static_cast<std::size_t>(gpu)]));
  return fmt::format("{}", fmt::join(texts, " and "));
}

std::string plan_text(const MachineMap& map, const PinPlan& plan) {
  std::string out = plan.host_device ? fmt::format("For the host device on {}:\n\n", map.source)
                    : plan.gpus.empty()
                        ? fmt::format("For a GPU that PCI does not show, on {}, from node {}:\n\n",
                                      map.source, plan.node)
                        : fmt::format("For {} of {}, from node {}:\n\n", gpus_text(map, plan.gpus),
                                      map.source, plan.node);
  const auto row = [&](const char* who, const std::vector<int>& cpus, int node) {
    const std::string where = node < 0 ? "" : fmt::format(", node {}", node);
    out += fmt::format("  {:<8} {:<9} {} {}{}\n", who, plural(cpus.size(), "core"),
                       cpus.size() == 1 ? "cpu" : "cpus", format_id_list(cpus), where);
  };
  row("engine", plan.engine_cpus, -1);
  for (const PinPlan::Workers& group : plan.workers) row("workers", group.cpus, group.node);
  if (plan.workers.empty()) out += "  workers  none\n";
  if (!plan.notes.empty() || !plan.facts.empty()) out += "\n";
  for (const std::string& fact : plan.facts) out += fmt::format("why: {}\n", fact);
  for (const std::string& note : plan.notes) out += fmt::format("note: {}\n", note);
  out += "\nIn a config file (`tandem pin apply --config FILE` writes it there):\n\n";
  for (const auto& [key, value] : plan_settings(plan))
    out += fmt::format("  {} = {}\n", key, value);
  return out;
}

nlohmann::json plan_json(const PinPlan& plan) {
  nlohmann::json workers = nlohmann::json::array();
  for (const PinPlan::Workers& group : plan.workers) {
    workers.push_back({{"node", group.node}, {"cpus", group.cpus}});
  }
  nlohmann::json settings = nlohmann::json::object();
  settings["cpus"] = format_id_list(plan.engine_cpus);
  settings["worker_cpus"] = format_id_list(plan.worker_cpus());
  settings["cpu_workers"] = plan.worker_cpus().size();
  return {{"gpu", plan.gpus.empty() ? nlohmann::json() : nlohmann::json(plan.gpus.front())},
          {"gpus", plan.gpus},
          {"node", plan.node},
          {"engine_cpus", plan.engine_cpus},
          {"workers", std::move(workers)},
          {"notes", plan.notes},
          {"facts", plan.facts},
          {"settings", std::move(settings)}};
}

std::vector<std::pair<std::string, std::string>> plan_settings(const PinPlan& plan) {
  const std::vector<int> workers = plan.worker_cpus();
  return {{"cpus", fmt::format("\"{}\"", format_id_list(plan.engine_cpus))},
          {"worker_cpus", fmt::format("\"{}\"", format_id_list(workers))},
          {"cpu_workers", std::to_string(workers.size())}};
}

}  // namespace tandem
