#include "cpu_lora/topology/plan/node_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/ids/ticket.h"

namespace tandem {

std::vector<std::vector<int>> places_of(const MachineMap& machine, const std::vector<int>& gpus) {
  std::vector<std::vector<int>> places;
  for (const int gpu : gpus) {
    std::vector<int> place;
    for (const int node : machine.gpus[static_cast<std::size_t>(gpu)].nodes) {
      place.push_back(machine.memory_node_of(node));
    }
    if (!place.empty() && std::find(places.begin(), places.end(), place) == places.end()) {
      places.push_back(std::move(place));
    }
  }
  return places;
}

std::vector<std::string> share_nodes(const MachineMap& machine, const std::vector<int>& gpus,
                                     const std::vector<int>& home, std::vector<CoreSlot>& slots) {
  std::vector<std::string> told;
  for (const int node : home) {
    std::vector<bool> is_ours;  // one entry for each GPU at this node
    for (const MachineGpu& gpu : machine.gpus) {
      std::vector<int> nodes;
      for (const int each : gpu.nodes) nodes.push_back(machine.memory_node_of(each));
      if (nodes.empty()) nodes = home;
      if (std::ranges::find(nodes, node) == nodes.end()) continue;
      is_ours.push_back(std::ranges::find(gpus, gpu.index) != gpus.end());
    }
    if (std::ranges::find(is_ours, false) == is_ours.end()) continue;
    std::vector<int> cores;
    for (const CoreSlot& slot : slots) {
      const bool is_next = cores.empty() || cores.back() != slot.core;
      if (slot.node == node && is_next) cores.push_back(slot.core);
    }
    std::unordered_set<int> part;
    const std::size_t sharers = is_ours.size();
    for (std::size_t i = 0; i < sharers; ++i) {
      if (!is_ours[i]) continue;
      const std::size_t end = (i + 1) * cores.size() / sharers;
      for (std::size_t c = i * cores.size() / sharers; c < end; ++c) part.insert(cores[c]);
    }
    for (CoreSlot& slot : slots) {
      if (slot.node == node) slot.own = part.contains(slot.core);
    }
    told.push_back(
        fmt::format("of the {} cores of node {}, at which {} GPUs are, {} are for GPU {}",
                    cores.size(), node, sharers, part.size(), format_id_list(gpus)));
  }
  return told;
}

void keep_to_worker_nodes(std::vector<CoreSlot>& slots) {
  std::set<int> distances;
  for (const CoreSlot& slot : slots) {
    if (slot.near) distances.insert(slot.distance);
  }
  if (distances.size() <= std::size_t{kMaxMailboxes}) return;
  const int last = *std::next(distances.begin(), kMaxMailboxes - 1);
  for (CoreSlot& slot : slots) slot.near = slot.near && slot.distance <= last;
}

}  // namespace tandem
