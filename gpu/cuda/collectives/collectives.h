// The operations of a group (AllReduceArgs and AllGatherArgs in gpu/ops.h) over GPUs that map each
// other's memory, and those parts of them that a rank does alone. Every launcher enqueues on
// `stream` and neither allocates nor synchronises; launch shapes depend only on values that all
// ranks share. An operation without elements does nothing and has no meeting.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "gpu/cuda/collectives/group.h"
#include "gpu/ops.h"

namespace tandem::cuda {

Status launch_all_reduce(const AllReduceArgs& args, const GroupEnd& end, cudaStream_t stream);
Status launch_all_gather(const AllGatherArgs& args, const GroupEnd& end, cudaStream_t stream);

// out[t] = rows t of `size` parts, concatenated. Each part is [out.rows(), cols], in this GPU's
// memory. `out` is as in AllGatherArgs.
Status launch_join(const ShownParts& parts, std::int32_t size, const TensorView& out,
                   cudaStream_t stream);

// *count += 1 in device memory; then *shown = *count in pinned host memory, for the CPU to read.
Status launch_mark(std::uint32_t* count, std::uint32_t* shown, cudaStream_t stream);

}  // namespace tandem::cuda
