// Ranks on GPUs: each lets the others read its memory over NVLink or PCIe, and their kernels meet
// there (meeting.cuh); or NCCL transports the data.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "gpu/communicator.h"
#include "gpu/cuda/collectives/cuda_group.h"
#include "gpu/device.h"

namespace tandem::cuda {

class CudaCommunicator final : public Communicator {
 public:
  CudaCommunicator(std::shared_ptr<CudaGroup> group, std::int32_t rank, Device& device)
      : group_(std::move(group)), rank_(rank), device_(&device) {}

  std::int32_t rank() const override { return rank_; }
  std::int32_t size() const override { return group_->size(); }
  // Uses cudaMalloc: GPUs that map this one's memory can reach all of it.
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    return device_->allocate(bytes, purpose);
  }
  Result<Buffer> allocate_words(std::size_t bytes, std::string_view purpose) override {
    return group_->peers_map() ? device_->allocate(bytes, purpose)
                               : device_->allocate_pinned(bytes, purpose);
  }
  void leave(std::string_view what) noexcept override { group_->leave(rank_, what); }
  void reset() noexcept override { group_->reset(rank_); }

  Status all_reduce(const AllReduceArgs& args, cudaStream_t stream) {
    return group_->all_reduce(rank_, args, stream);
  }
  Status all_gather(const AllGatherArgs& args, cudaStream_t stream) {
    return group_->all_gather(rank_, args, stream);
  }

  GroupEnd end() const { return group_->end(rank_); }
  bool has_failed() const { return group_->has_failed(rank_); }
  Status take_failure() { return group_->take_failure(rank_); }
  Status ended() const { return group_->ended(); }

 private:
  const std::shared_ptr<CudaGroup> group_;
  const std::int32_t rank_;
  Device* const device_;
};

}  // namespace tandem::cuda
