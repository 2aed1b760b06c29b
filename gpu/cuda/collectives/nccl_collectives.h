// The operations of a group of GPUs through NCCL: what the ranks have is added up or gathered by
// it, and what our own kernels do in the same launch comes behind, on each rank by itself.
//
// All ranks get the same sums to the bit: NCCL adds up a piece in one place, in one order, and
// sends the sum to all (its rings and trees alike; sums that every rank makes by itself it has for
// memory that is registered with it, and ours is not). The order is not that of the ranks, so of
// three or more the sums are not those of our own kernels to the bit.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "gpu/cuda/base/device_memory.h"
#include "gpu/cuda/collectives/group.h"
#include "gpu/cuda/nccl/nccl_ranks.h"
#include "gpu/ops.h"

namespace tandem::cuda {

class NcclCollectives {
 public:
  static Result<std::unique_ptr<NcclCollectives>> create(std::span<const int> gpus);

  // As the launchers of collectives.h; `end` is the rank's. Of an all-gather rank r has the columns
  // [r * share, (r + 1) * share) of `out`, as far as it has so many, with share = out.cols() /
  // ranks rounded up: what NCCL gathers is of one size, and all must know it.
  Status all_reduce(const AllReduceArgs& args, const GroupEnd& end, cudaStream_t stream);
  Status all_gather(const AllGatherArgs& args, const GroupEnd& end, cudaStream_t stream);

  NcclRanks& ranks() { return *ranks_; }

 private:
  NcclCollectives() = default;
  template <typename Body>
  Status while_marked(const GroupEnd& end, cudaStream_t stream, Body&& body);

  // [ranks], each in its rank's memory: all ranks' rows, one rank's behind another's; what its
  // stream counts (launch_mark).
  std::vector<DeviceMemory> gathered_;
  std::vector<DeviceMemory> counts_;
  std::unique_ptr<NcclRanks> ranks_;  // ends first: memory is freed when nothing runs
};

}  // namespace tandem::cuda
