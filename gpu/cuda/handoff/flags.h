// Words that streams write and wait for (Stream::set_flag, wait_flag), through the driver's stream
// memory operations: they are no kernels, so they need no room on the GPU. If the driver refuses
// them, a kernel of one thread does the same.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"

namespace tandem::cuda {

// flag[0 .. count) = value in device memory, after everything before it on the stream, copies too:
// a kernel of another stream that acquires the value (at system scope) sees the effects.
Status enqueue_set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count,
                        cudaStream_t stream);
// Later operations of the stream run once *flag == value, in pinned host memory.
Status enqueue_wait_flag(const std::uint32_t* flag, std::uint32_t value, cudaStream_t stream);

// The fallbacks, in flag_kernels.cu.
Status launch_set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count,
                       cudaStream_t stream);
Status launch_wait_flag(const std::uint32_t* flag, std::uint32_t value, cudaStream_t stream);

}  // namespace tandem::cuda
