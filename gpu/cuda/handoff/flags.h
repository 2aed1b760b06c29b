// Words that streams write and wait for (Stream::set_flag, wait_flag), by the driver's stream
// memory operations: no kernel, so no room on the GPU is needed, and nothing waits on it. Where the
// driver refuses them, a kernel of one thread does the same.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"

namespace tandem::cuda {

// flag[0 .. count) = value in device memory, after all that is before it on the stream, copies too:
// a kernel of another stream that acquires the value (at system scope) sees it all.
Status enqueue_set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count,
                        cudaStream_t stream);
// What comes after it on the stream runs once *flag == value, in pinned host memory.
Status enqueue_wait_flag(const std::uint32_t* flag, std::uint32_t value, cudaStream_t stream);

// flag_kernels.cu: the fallbacks.
Status launch_set_flag(std::uint32_t* flag, std::uint32_t value, std::int32_t count,
                       cudaStream_t stream);
Status launch_wait_flag(const std::uint32_t* flag, std::uint32_t value, cudaStream_t stream);

}  // namespace tandem::cuda
