// A group's operations through NCCL, which adds up or gathers the ranks' data. The rest of each
// operation, which our own kernels do in the same launch, follows on each rank by itself.
//
// All ranks get the same sums to the bit: NCCL adds up a piece in one place and in one order and
// sends the sum to all ranks, in rings and trees alike. (It has algorithms in which every rank adds
// by itself, but only for memory registered with it, and ours is not.) The order is not that of the
// ranks, so with three or more ranks the sums may differ in bits from those of our own kernels.
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

  // As the launchers of collectives.h; `end` is the rank's. In an all-gather, rank r has columns
  // [r * share, (r + 1) * share) of `out`, as far as they exist, with share = out.cols() / ranks
  // rounded up: NCCL gathers parts of one size, which all ranks must know.
  Status all_reduce(const AllReduceArgs& args, const GroupEnd& end, cudaStream_t stream);
  Status all_gather(const AllGatherArgs& args, const GroupEnd& end, cudaStream_t stream);

  NcclRanks& ranks() { return *ranks_; }

 private:
  NcclCollectives() = default;
  template <typename Body>
  Status while_marked(const GroupEnd& end, cudaStream_t stream, Body&& body);

  // [ranks], each in its rank's memory: the rows of all ranks, rank after rank; then the counter of
  // its stream (launch_mark).
  std::vector<DeviceMemory> gathered_;
  std::vector<DeviceMemory> counts_;
  std::unique_ptr<NcclRanks> ranks_;  // ends first: memory is freed once nothing runs
};

}  // namespace tandem::cuda
