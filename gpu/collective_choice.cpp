#include "gpu/collective_choice.h"

namespace tandem {

std::optional<Collectives> parse_collectives(std::string_view name) {
  if (name == "auto") return Collectives::automatic;
  if (name == "own") return Collectives::own;
  if (name == "nccl") return Collectives::nccl;
  return std::nullopt;
}

bool goes_through_nccl(const GroupOptions& options, bool peers_map, std::size_t bytes) {
  if (options.collectives != Collectives::automatic) {
    return options.collectives == Collectives::nccl;
  }
  if (!peers_map) return true;
  return options.nccl_from_bytes != GroupOptions::kNever && bytes >= options.nccl_from_bytes;
}

bool may_need_nccl(const GroupOptions& options, bool peers_map) {
  return goes_through_nccl(options, peers_map, GroupOptions::kNever);
}

}  // namespace tandem
