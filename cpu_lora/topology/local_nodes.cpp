#include "cpu_lora/topology/local_nodes.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <tuple>

#include "base/text/id_list.h"
#include "cpu_lora/topology/machine_load.h"

namespace tandem {
namespace {

// Whether hwloc marks the node as memory that is not ordinary main memory, by its subtype or, in
// older files, by its info.
bool is_special_memory(hwloc_obj_t node) {
  const char* const info = hwloc_obj_get_info_by_name(node, "Type");
  for (const char* name : {static_cast<const char*>(node->subtype), info}) {
    if (name != nullptr && std::string_view(name) != "DRAM") return true;
  }
  return false;
}

// The nodes that have cpus, as reported by this machine's kernel; empty: not reported.
std::vector<int> nodes_with_cpus(const MachineOptions& options) {
  if (!is_this_machine(options)) return {};
  std::ifstream file(options.node_folder + "/has_cpu");
  std::string text;
  std::getline(file, text);
  Result<std::vector<int>> nodes = parse_id_list(text);
  return nodes ? *std::move(nodes) : std::vector<int>{};
}

}  // namespace

std::vector<LocalNode> read_local_nodes(hwloc_topology_t topology, const MachineOptions& options) {
  const std::vector<int> with_cpus = nodes_with_cpus(options);
  std::vector<hwloc_obj_t> objects;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr;) {
    if (object->cpuset != nullptr) objects.push_back(object);
  }
  const auto bytes = [](hwloc_obj_t node) { return node->attr->numanode.local_memory; };
  const auto order = [&](hwloc_obj_t node) {
    const int id = static_cast<int>(node->os_index);
    std::uint64_t largest = 0;  // memory of the nodes near the same cpus
    for (const hwloc_obj_t other : objects) {
      if (hwloc_bitmap_isequal(node->cpuset, other->cpuset) == 0) continue;
      largest = std::max<std::uint64_t>(largest, bytes(other));
    }
    const bool has_cpus = with_cpus.empty() || std::ranges::find(with_cpus, id) != with_cpus.end();
    const int weight = hwloc_bitmap_weight(node->cpuset);
    return std::tuple(weight, !has_cpus, is_special_memory(node), bytes(node) < largest / 4, id);
  };
  std::vector<std::pair<decltype(order(nullptr)), hwloc_obj_t>> ordered;
  ordered.reserve(objects.size());
  for (const hwloc_obj_t object : objects) ordered.emplace_back(order(object), object);
  std::ranges::sort(ordered, {}, [](const auto& each) { return each.first; });
  std::vector<LocalNode> nodes;
  nodes.reserve(ordered.size());
  for (const auto& [key, object] : ordered) nodes.push_back({std::get<4>(key), object->cpuset});
  return nodes;
}

std::optional<int> node_of_cpu(const std::vector<LocalNode>& nodes, int cpu) {
  const auto found = std::ranges::find_if(nodes, [&](const LocalNode& node) {
    return hwloc_bitmap_isset(node.cpus, static_cast<unsigned>(cpu)) != 0;
  });
  return found == nodes.end() ? std::nullopt : std::optional(found->id);
}

}  // namespace tandem
