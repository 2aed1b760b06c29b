// The NCCL ranks of a group of GPUs, all in this process.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "gpu/cuda/nccl/nccl.h"

namespace tandem::cuda {

// Thread-safe; operations of one rank are enqueued by one thread at a time, in the same order on
// all ranks. No call waits for another rank's, unless the environment lets NCCL connect GPUs late
// (nccl.cpp); for that case each rank needs its own thread.
class NcclRanks {
 public:
  // Makes one rank for each of `gpus`. unavailable: there is no NCCL, a GPU is named twice, or they
  // have not connected within a minute.
  static Result<std::unique_ptr<NcclRanks>> create(std::span<const int> gpus);
  // Calls stop() and waits a few seconds for the end. Recordings must be destroyed before this.
  ~NcclRanks();
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  // As in Nccl. The current GPU must be the rank's, on which `stream` is. Refused after
  // stop().
  Status all_reduce(std::int32_t rank, const void* from, void* to, std::size_t count,
                    Nccl::Type type, cudaStream_t stream);
  Status all_gather(std::int32_t rank, const void* from, void* to, std::size_t count,
                    Nccl::Type type, cudaStream_t stream);

  // Errors that NCCL found by itself; ok while a call of the rank is in flight, or after stop().
  Status check();

  // Ends everything that runs or waits on any GPU, at once and for good: NCCL cannot restart its
  // ranks, and recordings with its operations no longer do anything. Returns without waiting, and
  // needs no memory.
  void stop() noexcept;
  bool is_stopped() const;

 private:
  struct State;

  explicit NcclRanks(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const std::shared_ptr<State> state_;        // shared with the threads that make and end the ranks
  std::vector<std::future<Status>> endings_;  // [ranks]
};

}  // namespace tandem::cuda
