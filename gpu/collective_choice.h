// Who adds up and gathers what the GPUs of a group have: our own kernels, which read each other's
// memory (gpu/cuda/collectives), or NVIDIA's NCCL, which also knows ways through the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace tandem {

enum class Collectives : std::uint8_t {
  automatic,  // our own where the GPUs map each other's memory, else NCCL
  own,
  nccl,
};

std::optional<Collectives> parse_collectives(std::string_view name);  // auto, own, nccl

struct GroupOptions {
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  Collectives collectives = Collectives::automatic;
  // Of automatic: where the GPUs map each other's memory, what a rank shows in one operation, from
  // so many bytes on, goes through NCCL. Never, until somebody has measured a size from which NCCL
  // takes less with the residual and the norm (`tandem bench engine --only T3` tells it).
  std::size_t nccl_from_bytes = kNever;
  // As if no GPU could map another's memory: what tests have instead of such a machine.
  bool peers_apart = false;
};

// Whether an operation in which a rank shows so many bytes goes through NCCL. The same on all
// ranks, for all show as much.
bool goes_through_nccl(const GroupOptions& options, bool peers_map, std::size_t bytes);

// Whether any may.
bool may_need_nccl(const GroupOptions& options, bool peers_map);

}  // namespace tandem
