// Fallback kernels of one thread that write a word or poll one, for drivers without stream memory
// operations.
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/base/memory_order.cuh"
#include "gpu/cuda/handoff/flags.h"

namespace tandem::cuda {
namespace {

__global__ void write_flags(std::uint32_t* flag, std::uint32_t value, std::int32_t count) {
  // release: pairs with the acquire after an offer has read its ready words
  for (std::int32_t i = 0; i < count; ++i) store_release_system(flag + i, value);
}

__global__ void poll_flag(const std::uint32_t* flag, std::uint32_t value) {
  // acquire: pairs with the release of the CPU thread that set the flag
  while (load_acquire_system(flag) != value) __nanosleep(1000);
}

}  // namespace

Status launch_set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count,
                       cudaStream_t stream) {
  return launch_kernel("set_flag", {.grid = dim3(1), .block = dim3(1)}, stream, write_flags, flag,
                       value, count);
}

Status launch_wait_flag(const std::uint32_t* flag, std::uint32_t value, cudaStream_t stream) {
  return launch_kernel("wait_flag", {.grid = dim3(1), .block = dim3(1)}, stream, poll_flag, flag,
                       value);
}

}  // namespace tandem::cuda
