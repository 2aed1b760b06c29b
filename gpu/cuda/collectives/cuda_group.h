// State that the ends of a group of GPUs share: where they meet (group.h), the transport of its
// operations, and the ranks that have failed.
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

// Thread-safe, except for the operations that one rank enqueues.
class CudaGroup {
 public:
  // Makes the ranks on `gpus`, which may name a GPU several times. Enables the GPUs' access to each
  // other's memory. If two GPUs have none, all operations go through NCCL and the ranks meet in
  // host memory; if the options forbid that, or there is no NCCL, the error names the two GPUs.
  static Result<std::shared_ptr<CudaGroup>> create(std::span<const int> gpus, Device& first,
                                                   const GroupOptions& options = {});

  GroupEnd end(std::int32_t rank) const;
  std::int32_t size() const { return static_cast<std::int32_t>(gpus_.size()); }
  bool peers_map() const { return host_signals_.bytes() == 0; }

  // Enqueued on one of the rank's streams, whose GPU must be the current one.
  Status all_reduce(std::int32_t rank, const AllReduceArgs& args, cudaStream_t stream);
  Status all_gather(std::int32_t rank, const AllGatherArgs& args, cudaStream_t stream);

  // As in Communicator. In a group with NCCL a rank that leaves ends the group: none of its work
  // continues, its streams report StatusCode::fatal, and reset() has no effect.
  void leave(std::int32_t rank, std::string_view what) noexcept;
  void reset(std::int32_t rank) noexcept;

  bool has_failed(std::int32_t rank) const;
  // Why this rank's kernels did nothing since the last call. Nothing of it may be in flight.
  Status take_failure(std::int32_t rank);
  // The reason if the group has ended. Its operations' recordings must then not be launched.
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
  std::vector<DeviceMemory> device_signals_;  // [ranks]; empty if
  Buffer host_signals_;                       // the GPUs cannot map each other's memory
  Buffer faults_;
  std::int32_t most_blocks_ = kMostMeetingBlocks;
  bool shares_gpu_ = false;
  std::unique_ptr<NcclCollectives> nccl_;  // null: no operation uses NCCL
  mutable std::mutex mutex_;
  std::uint32_t has_reset_ = 0;  // one bit per rank
  std::string reason_;           // why break_off() was called
  std::jthread watch_;           // watches nccl_; ends first
};

}  // namespace tandem::cuda
