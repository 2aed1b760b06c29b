// Uploads small data that a step cannot wait for.
//
// A DMA copy waits until the copies enqueued before it, on any stream, are done: on an H200 a
// step's input had to wait for the adapter loads in flight, 1.8 ms for each 100 MB. A kernel that
// reads the pinned memory shares the link with them instead.
//
//   device[0, bytes) = pinned[0, bytes)
//
// One thread per 16 bytes (fewer bytes if the addresses are not aligned), all loads in flight at
// once: bound by one round trip of the link, then by its speed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "base/status.h"

namespace tandem::cuda {

// Enqueues; never allocates or synchronises. `pinned` is memory of cudaHostAlloc or cudaMallocHost
// that must not change until the stream has passed.
Status launch_upload(void* device, const void* pinned, std::size_t bytes, cudaStream_t stream);

}  // namespace tandem::cuda
