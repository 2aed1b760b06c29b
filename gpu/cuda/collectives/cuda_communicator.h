// The ranks of GPUs: each shows the others memory that they read over NVLink or PCIe, and their
// kernels meet there (meeting.cuh).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/communicator.h"
#include "gpu/cuda/base/device_memory.h"
#include "gpu/cuda/collectives/group.h"
#include "gpu/device.h"

namespace tandem::cuda {

// What all ends of a group share. Thread-safe.
class CudaGroup {
 public:
  // Of the ranks on `gpus`, which may name one several times. Enables the GPUs' access to each
  // other's memory; a failure names two that cannot reach each other.
  static Result<std::shared_ptr<CudaGroup>> create(std::span<const int> gpus, Device& first);

  GroupEnd end(std::int32_t rank) const;
  std::int32_t size() const { return static_cast<std::int32_t>(gpus_.size()); }
  // As Communicator has them.
  void leave(std::int32_t rank, std::string_view what) noexcept;
  void reset(std::int32_t rank) noexcept;

  bool has_failed(std::int32_t rank) const;
  // Why this rank's kernels did nothing since it was last asked, with nothing of it under way.
  Status take_failure(std::int32_t rank);

 private:
  explicit CudaGroup(std::span<const int> gpus) : gpus_(gpus.begin(), gpus.end()) {}
  Status clear_signals() const;
  std::string reason() const;
  GroupFaults& faults() const { return *reinterpret_cast<GroupFaults*>(faults_.data()); }

  const std::vector<int> gpus_;        // [ranks]
  std::vector<DeviceMemory> signals_;  // [ranks]
  Buffer faults_;
  std::int32_t most_blocks_ = kMostMeetingBlocks;
  bool shares_gpu_ = false;
  std::mutex mutex_;
  std::uint32_t has_reset_ = 0;  // ranks, a bit each
  std::string reason_;           // of leave()
};

class CudaCommunicator final : public Communicator {
 public:
  CudaCommunicator(std::shared_ptr<CudaGroup> group, std::int32_t rank, Device& device)
      : group_(std::move(group)), rank_(rank), device_(&device) {}

  std::int32_t rank() const override { return rank_; }
  std::int32_t size() const override { return group_->size(); }
  // Of cudaMalloc: the GPUs that reach this one's memory reach all of it.
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    return device_->allocate(bytes, purpose);
  }
  void leave(std::string_view what) noexcept override { group_->leave(rank_, what); }
  void reset() noexcept override { group_->reset(rank_); }

  GroupEnd end() const { return group_->end(rank_); }
  bool has_failed() const { return group_->has_failed(rank_); }
  Status take_failure() { return group_->take_failure(rank_); }

 private:
  const std::shared_ptr<CudaGroup> group_;
  const std::int32_t rank_;
  Device* const device_;
};

}  // namespace tandem::cuda
