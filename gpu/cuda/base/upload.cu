#include "gpu/cuda/base/upload.h"

#include <cstdint>

#include "gpu/cuda/base/launch.h"

namespace tandem::cuda {
namespace {

constexpr unsigned kThreads = 128;

// Copies `units` whole units, and `tail` bytes behind them.
template <typename Unit>
__global__ void upload(Unit* device, const Unit* pinned, std::size_t units, std::size_t tail) {
  // The next kernel is not admitted early: kernels read a step's input (lora, offer, rope_append,
  // attention) and keys of earlier steps (attention) before they wait for the kernels in front, and
  // only the kernel directly before one can admit it.
  const std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < units) {
    // The host wrote it before this launch, so it can be read before earlier kernels have ended.
    const Unit value = __ldcv(pinned + i);
    wait_for_previous_kernels();
    device[i] = value;
  } else if (i < units + tail) {
    const std::size_t at = units * sizeof(Unit) + (i - units);
    const unsigned char value = __ldcv(reinterpret_cast<const unsigned char*>(pinned) + at);
    wait_for_previous_kernels();
    reinterpret_cast<unsigned char*>(device)[at] = value;
  }
  __threadfence();  // makes the stores visible when this block ends and the next kernel begins
}

template <typename Unit>
Status launch(void* device, const void* pinned, std::size_t bytes, cudaStream_t stream) {
  const std::size_t units = bytes / sizeof(Unit);
  const std::size_t tail = bytes % sizeof(Unit);
  const auto blocks = static_cast<unsigned>((units + tail + kThreads - 1) / kThreads);
  return launch_kernel("upload", {.grid = dim3(blocks), .block = dim3(kThreads), .overlap = true},
                       stream, upload<Unit>, static_cast<Unit*>(device),
                       static_cast<const Unit*>(pinned), units, tail);
}

}  // namespace

Status launch_upload(void* device, const void* pinned, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return {};
  const auto both =
      reinterpret_cast<std::uintptr_t>(device) | reinterpret_cast<std::uintptr_t>(pinned);
  if (both % sizeof(uint4) == 0) return launch<uint4>(device, pinned, bytes, stream);
  if (both % sizeof(uint2) == 0) return launch<uint2>(device, pinned, bytes, stream);
  if (both % sizeof(unsigned) == 0) return launch<unsigned>(device, pinned, bytes, stream);
  return launch<unsigned char>(device, pinned, bytes, stream);
}

}  // namespace tandem::cuda
