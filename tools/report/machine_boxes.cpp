#include "tools/report/machine_boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tandem {
namespace {

std::vector<int> cpus_of(const MachineCore& core) {
  std::vector<int> cpus;
  for (const MachineThread& thread : core.threads) cpus.push_back(thread.cpu);
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

template <typename Predicate>
std::vector<int> cpus_where(const MachineMap& map, Predicate&& predicate) {
  std::vector<int> all;
  for (const MachineCore& core : map.cores) {
    if (!predicate(core)) continue;
    const std::vector<int> cpus = cpus_of(core);
    all.insert(all.end(), cpus.begin(), cpus.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool contains(const std::vector<int>& outer, const std::vector<int>& inner) {
  return std::includes(outer.begin(), outer.end(), inner.begin(), inner.end());
}

bool is_private(const MachineCore& core, const MachineCache& cache) {
  // A quick test first: this runs for each pair of core and cache, and most have nothing in common.
  if (!cache.cpus.empty() && std::ranges::none_of(core.threads, [&](const MachineThread& thread) {
        return thread.cpu == cache.cpus.front();
      })) {
    return false;
  }
  return contains(cpus_of(core), cache.cpus);
}

// Returns the innermost box that contains `cpus`.
MachineBox& innermost(MachineBox& outer, const std::vector<int>& cpus) {
  for (MachineBox& box : outer.boxes) {
    if (!cpus.empty() && contains(box.cpus, cpus)) return innermost(box, cpus);
  }
  return outer;
}

MachineBox* find_box(MachineBox& box, MachineBox::Kind kind, const std::string& name) {
  if (box.kind == kind && box.name == name) return &box;
  for (MachineBox& inner : box.boxes) {
    if (MachineBox* found = find_box(inner, kind, name)) return found;
  }
  return nullptr;
}

std::string node_name(int id) {
  return fmt::format("node {}", id);
}

std::string node_detail(const MachineNode& node, bool has_cores) {
  std::string text;
  if (node.memory_bytes > 0) {
    text = bytes_text(node.memory_bytes);
  } else if (node.memory_node != node.id) {
    text = fmt::format("no memory, uses node {}'s", node.memory_node);
  }
  if (!has_cores) text += text.empty() ? "no cores" : ", no cores";
  return text;
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return fmt::format("{} {}", text, kUnits[unit]);
}

std::string private_caches(const MachineMap& map, const MachineCore& core) {
  std::string text;
  for (auto cache = map.caches.rbegin(); cache != map.caches.rend(); ++cache) {
    if (cache->instructions || !is_private(core, *cache)) continue;
    const std::string one = fmt::format("L{} {}", cache->level, bytes_text(cache->bytes));
    if (text.find(one) != std::string::npos) continue;
    text += (text.empty() ? "" : ", ") + one;
  }
  return text;
}

MachineBox make_boxes(const MachineMap& map) {
  MachineBox machine;
  machine.name = map.source;
  machine.cpus = cpus_where(map, [](const MachineCore&) { return true; });

  std::vector<MachineBox> found;
  for (const MachinePackage& package : map.packages) {
    MachineBox box;
    box.kind = MachineBox::Kind::package;
    box.name = fmt::format("package {}", package.id);
    box.detail = package.name;
    box.cpus = cpus_where(map, [&](const MachineCore& core) { return core.package == package.id; });
    found.push_back(std::move(box));
  }
  for (const MachineNode& node : map.nodes) {
    MachineBox box;
    box.kind = MachineBox::Kind::node;
    box.name = node_name(node.id);
    box.cpus = cpus_where(map, [&](const MachineCore& core) { return core.node == node.id; });
    box.detail = node_detail(node, !box.cpus.empty());
    found.push_back(std::move(box));
  }
  // Outer caches first.
  for (auto cache = map.caches.rbegin(); cache != map.caches.rend(); ++cache) {
    const bool shared = std::none_of(map.cores.begin(), map.cores.end(),
                                     [&](const MachineCore& c) { return is_private(c, *cache); });
    if (!shared || cache->instructions) continue;
    MachineBox box;
    box.kind = MachineBox::Kind::cache;
    box.name = fmt::format("L{} cache", cache->level);
    box.detail = bytes_text(cache->bytes);
    box.cpus = cache->cpus;
    found.push_back(std::move(box));
  }
  // Larger boxes come first; if two have the same cpus, a package encloses a cache. Boxes without
  // cpus come last, when their package exists already.
  std::stable_sort(found.begin(), found.end(), [](const MachineBox& a, const MachineBox& b) {
    return std::pair(a.cpus.size(), static_cast<int>(b.kind)) >
           std::pair(b.cpus.size(), static_cast<int>(a.kind));
  });
  for (MachineBox& box : found) {
    MachineBox* outer = &innermost(machine, box.cpus);
    if (box.cpus.empty() && box.kind == MachineBox::Kind::node) {
      for (const MachineNode& node : map.nodes) {
        if (node_name(node.id) != box.name || node.package < 0) continue;
        MachineBox* package =
            find_box(machine, MachineBox::Kind::package, fmt::format("package {}", node.package));
        if (package != nullptr) outer = package;
      }
    }
    outer->boxes.push_back(std::move(box));
  }
  for (const MachineCore& core : map.cores) {
    innermost(machine, cpus_of(core)).cores.push_back(&core);
  }
  for (const MachineGpu& gpu : map.gpus) {
    MachineBox* node =
        gpu.nodes.empty() ? nullptr
                          : find_box(machine, MachineBox::Kind::node, node_name(gpu.nodes.front()));
    (node == nullptr ? machine : *node).gpus.push_back(&gpu);
  }
  const auto order = [](auto& self, MachineBox& box) -> void {
    std::stable_sort(box.boxes.begin(), box.boxes.end(),
                     [](const MachineBox& a, const MachineBox& b) {
                       if (a.cpus.empty() || b.cpus.empty()) return !a.cpus.empty();
                       return a.cpus.front() < b.cpus.front();
                     });
    for (MachineBox& inner : box.boxes) self(self, inner);
  };
  order(order, machine);
  return machine;
}

}  // namespace tandem
