// The words of the handoff that the device, the engine and the workers must interpret alike.
#pragma once

#include <cstdint>

namespace tandem {

inline constexpr int kMaxColdGroups = 64;  // per step: bits of a mask
inline constexpr int kMaxMailboxes = 8;    // per engine: one per NUMA node with workers

// The place where a cold group's delta of one projection is computed; the device decides on it when
// the offer runs.
enum class Ticket : std::uint32_t {
  none = 0,
  gpu = 1,      // the device: the weights are there
  cpu = 2,      // workers: y = x A^T B^T
  cpu_xa = 3,   // workers: v = x A^T; B is on the device
  dropped = 4,  // nobody: the mailbox is broken, and the rows are computed again later
};

// The value of a doorbell: the last job that was offered, and its ticket.
constexpr std::uint64_t doorbell_of(std::uint64_t sequence, Ticket ticket) {
  return sequence << 3 | static_cast<std::uint64_t>(ticket);
}
constexpr std::uint64_t sequence_of(std::uint64_t doorbell) {
  return doorbell >> 3;
}
constexpr Ticket ticket_of(std::uint64_t doorbell) {
  return static_cast<Ticket>(doorbell & 7);
}

// The parts of an adapter whose arrival on the device is tracked: each layer has one word for all
// of A and one for all of B, which holds the load's generation once the part has arrived.
enum class LoadPart : std::uint8_t { a = 0, b = 1 };
inline constexpr int kNumLoadParts = 2;

}  // namespace tandem
