// What the ends of a group of GPUs share: where they meet (group.h), which way its operations go,
// and who has failed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gpu/collective_choice.h"
#include "gpu/cuda/base/device_memory.h"
#include "gpu/cuda/collectives/group.h"
#include "gpu/cuda/collectives/nccl_collectives.h"
#include "gpu/device.h"

namespace tandem::cuda {

// Thread-safe, but for what one rank enqueues.
class CudaGroup {
 public:
  // Of the ranks on `gpus`, which may name one several times. Enables the GPUs' access to each
  // other's memory. Where two have none, all operations go through NCCL and the ranks meet in host
  // memory; a failure, if they are not to or there is no NCCL, names the two.
  static Result<std::shared_ptr<CudaGroup>> create(std::span<const int> gpus, Device& first,
                                                   const GroupOptions& options = {});

  GroupEnd end(std::int32_t rank) const;
  std::int32_t size() const { return static_cast<std::int32_t>(gpus_.size()); }
  bool peers_map() const { return host_signals_.bytes() == 0; }

  // Enqueued on a stream of the rank's, whose GPU is the current one.
  Status all_reduce(std::int32_t rank, const AllReduceArgs& args, cudaStream_t stream);
  Status all_gather(std::int32_t rank, const AllGatherArgs& args, cudaStream_t stream);

  // As Communicator has them. Of a group with NCCL, who leaves ends it: nothing of the group runs
  // any more, what its streams report has the code StatusCode::fatal, and reset() changes nothing.
  void leave(std::int32_t rank, std::string_view what) noexcept;
  void reset(std::int32_t rank) noexcept;

  bool has_failed(std::int32_t rank) const;
  // Why this rank's kernels did nothing since it was last asked, with nothing of it under way.
  Status take_failure(std::int32_t rank);
  // Of a group that has ended: why. Recordings of its operations are not to be launched.
  Status ended() const;

 private:
  CudaGroup(std::span<const int> gpus, const GroupOptions& options)
      : gpus_(gpus.begin(), gpus.end()), options_(options) {}
  Status make_signals(Device& first, bool peers_map);
  Status make_nccl(bool peers_map);
  Status clear_signals() const;
  bool is_through_nccl(const TensorView& part) const;
  void break_off(std::string_view reason) noexcept;
  void watch(const std::stop_token& stop);
  std::string reason() const;
  GroupFaults& faults() const { return *reinterpret_cast<GroupFaults*>(faults_.data()); }

  const std::vector<int> gpus_;  // [ranks]
  const GroupOptions options_;
  std::vector<RankSignals*> signals_;         // [ranks]
  std::vector<DeviceMemory> device_signals_;  // [ranks], or none:
  Buffer host_signals_;                       // where the GPUs cannot map each other's memory
  Buffer faults_;
  std::int32_t most_blocks_ = kMostMeetingBlocks;
  bool shares_gpu_ = false;
  std::unique_ptr<NcclCollectives> nccl_;  // null: nothing goes through it
  mutable std::mutex mutex_;
  std::uint32_t has_reset_ = 0;  // ranks, a bit each
  std::string reason_;           // of break_off()
  std::jthread watch_;           // of nccl_; ends first
};

}  // namespace tandem::cuda
