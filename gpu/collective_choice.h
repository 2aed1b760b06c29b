// Chooses how the GPUs of a group add up and gather data: with our own kernels, which read each
// other's memory (gpu/cuda/collectives), or NVIDIA's NCCL, which can also go through the host.
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
  // For `automatic` where the GPUs map each other's memory: operations to which a rank contributes
  // at least this many bytes use NCCL. The default is never, until a size is measured from which
  // NCCL is faster including the residual and the norm (`tandem bench engine --only T3` shows it).
  std::size_t nccl_from_bytes = kNever;
  // Treats the GPUs as unable to map each other's memory, so that tests need no such machine.
  bool peers_apart = false;
};

// True if an operation to which a rank contributes this many bytes uses NCCL. All ranks contribute
// the same number of bytes, so they all get the same answer.
bool goes_through_nccl(const GroupOptions& options, bool peers_map, std::size_t bytes);

// True if any operation of the group may use NCCL.
bool may_need_nccl(const GroupOptions& options, bool peers_map);

}  // namespace tandem
