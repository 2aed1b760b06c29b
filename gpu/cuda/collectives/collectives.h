// The operations of a group (AllReduceArgs and AllGatherArgs in gpu/ops.h) over the memory of GPUs
// that reach each other's. Every launcher enqueues on `stream` and neither allocates nor
// synchronises; launch shapes depend alone on what is the same on all ranks. An operation without
// elements does nothing, and nobody meets for it.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/cuda/collectives/group.h"
#include "gpu/ops.h"

namespace tandem::cuda {

Status launch_all_reduce(const AllReduceArgs& args, const GroupEnd& end, cudaStream_t stream);
Status launch_all_gather(const AllGatherArgs& args, const GroupEnd& end, cudaStream_t stream);

}  // namespace tandem::cuda
