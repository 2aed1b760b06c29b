// The ranks of a group of GPUs as NCCL has them, all in this process.
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

// Thread-safe; operations of one rank by one thread at a time, in the same order on all ranks. No
// call waits for another rank's, unless the environment lets NCCL connect GPUs late (nccl.cpp): so
// a thread for each.
class NcclRanks {
 public:
  // One rank for each of `gpus`. unavailable: there is no NCCL, one GPU is named twice, or they
  // have not found each other in a minute.
  static Result<std::unique_ptr<NcclRanks>> create(std::span<const int> gpus);
  // As stop(), and waits a few seconds for the end: recordings go before this does.
  ~NcclRanks();
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  // As Nccl has them; the current GPU is the rank's, which `stream` is of. After stop() they are
  // refused.
  Status all_reduce(std::int32_t rank, const void* from, void* to, std::size_t count,
                    Nccl::Type type, cudaStream_t stream);
  Status all_gather(std::int32_t rank, const void* from, void* to, std::size_t count,
                    Nccl::Type type, cudaStream_t stream);

  // What NCCL has found wrong by itself; ok while a rank is busy with a call, or after stop().
  Status check();

  // Ends whatever runs or waits on any GPU, at once, and for good: NCCL's ranks cannot be taken up
  // again, and recordings that have its operations do nothing any more. Returns without waiting,
  // and needs no memory.
  void stop() noexcept;
  bool is_stopped() const;

 private:
  struct State;

  explicit NcclRanks(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const std::shared_ptr<State> state_;        // also of the threads that make and end the ranks
  std::vector<std::future<Status>> endings_;  // [ranks]
};

}  // namespace tandem::cuda
