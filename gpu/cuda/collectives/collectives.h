// The operations of a group (AllReduceArgs and AllGatherArgs in gpu/ops.h) over the memory of GPUs
// that map each other's, and the parts of them that a rank does alone. Every launcher enqueues on
// `stream` and neither allocates nor synchronises; launch shapes depend alone on what is the same
// on all ranks. An operation without elements does nothing, and nobody meets for it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "gpu/cuda/collectives/group.h"
#include "gpu/ops.h"

namespace tandem::cuda {

Status launch_all_reduce(const AllReduceArgs& args, const GroupEnd& end, cudaStream_t stream);
Status launch_all_gather(const AllGatherArgs& args, const GroupEnd& end, cudaStream_t stream);

// out[t] = the parts' rows t, one after another: of so many parts, [out.rows(), cols] each, in this
// GPU's memory. `out` as in AllGatherArgs.
Status launch_join(const ShownParts& parts, std::int32_t size, const TensorView& out,
                   cudaStream_t stream);

// *count += 1, in device memory; then *shown = *count, in pinned host memory, for the CPU to see.
Status launch_mark(std::uint32_t* count, std::uint32_t* shown, cudaStream_t stream);

}  // namespace tandem::cuda
