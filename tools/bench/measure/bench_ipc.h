// How rows reach CPU LoRA processes and their answers come back: through UNIX domain sockets or
// through shared memory with flags. Only the transfer, no product.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace tandem {

enum class Ipc { socket, shared_memory };

struct IpcOptions {
  std::int32_t receivers = 1;      // each gets rows of its own
  std::size_t sent_bytes = 0;      // to each receiver
  std::size_t answered_bytes = 0;  // by each receiver
  std::int32_t rounds = 100;
};

struct IpcResult {
  double median_s = 0;  // from the first byte sent until all answers are here
  // These count one round's calls: bytes that were copied into and out of the kernel, and the
  // calls of both sides that copied them. Waits for flags in memory are not among them.
  std::uint64_t copied_bytes = 0;
  std::uint64_t calls = 0;
};

// Receivers are threads, which sockets and memory treat as they treat processes. Every answer is
// checked.
Result<IpcResult> measure_ipc(Ipc ipc, const IpcOptions& options);

}  // namespace tandem
