#include "gpu/cuda/nccl_speed.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <thread>

#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/base/device_memory.h"
#include "gpu/cuda/nccl/nccl_ranks.h"

namespace tandem {
namespace {

using cuda::cuda_status;

class TimedRank {
 public:
  TimedRank(cuda::NcclRanks& all, std::int32_t rank, int gpu)
      : all_(&all), rank_(rank), gpu_(gpu) {}
  ~TimedRank() {
    (void)cudaSetDevice(gpu_);
    if (graph_ != nullptr) (void)cudaGraphExecDestroy(graph_);
    for (cudaEvent_t const event : {begins_, ends_}) {
      if (event != nullptr) (void)cudaEventDestroy(event);
    }
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }
  TimedRank(const TimedRank&) = delete;
  TimedRank& operator=(const TimedRank&) = delete;

  Status prepare(std::size_t bytes) {
    TANDEM_TRY(cuda_status(cudaSetDevice(gpu_), "cudaSetDevice"));
    TANDEM_TRY(cuda_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                           "cudaStreamCreate"));
    TANDEM_TRY(cuda_status(cudaEventCreate(&begins_), "cudaEventCreate"));
    TANDEM_TRY(cuda_status(cudaEventCreate(&ends_), "cudaEventCreate"));
    TANDEM_ASSIGN(data_, cuda::allocate_device_memory(bytes, "sums of NCCL"));
    return cuda_status(cudaMemsetAsync(data_.get(), 0x3C, bytes, stream_), "cudaMemset");
  }
  Status reduce(std::int64_t count) {
    return all_->all_reduce(rank_, data_.get(), data_.get(), static_cast<std::size_t>(count),
                            cuda::Nccl::Type::bf16, stream_);
  }
  Status record(std::int64_t count, int calls) {
    TANDEM_TRY(cuda_status(cudaSetDevice(gpu_), "cudaSetDevice"));
    TANDEM_TRY(reduce(count));  // allocations of the first call stay out of the recording
    TANDEM_TRY(cuda_status(cudaStreamSynchronize(stream_), "an all-reduce of NCCL"));
    TANDEM_TRY(cuda_status(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                           "cudaStreamBeginCapture"));
    Status status;
    for (int call = 0; call < calls && status.ok(); ++call) status = reduce(count);
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    TANDEM_TRY(std::move(status));
    TANDEM_TRY(cuda_status(ended, "cudaStreamEndCapture"));
    if (graph_ != nullptr) (void)cudaGraphExecDestroy(std::exchange(graph_, nullptr));
    const cudaError_t made = cudaGraphInstantiate(&graph_, graph, 0);
    (void)cudaGraphDestroy(graph);
    return cuda_status(made, "cudaGraphInstantiate");
  }
  Status launch() {
    TANDEM_TRY(cuda_status(cudaSetDevice(gpu_), "cudaSetDevice"));
    TANDEM_TRY(cuda_status(cudaEventRecord(begins_, stream_), "cudaEventRecord"));
    TANDEM_TRY(cuda_status(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch"));
    return cuda_status(cudaEventRecord(ends_, stream_), "cudaEventRecord");
  }
  Result<double> wait() {
    TANDEM_TRY(cuda_status(cudaSetDevice(gpu_), "cudaSetDevice"));
    TANDEM_TRY(cuda_status(cudaStreamSynchronize(stream_), "all-reduces of NCCL"));
    float ms = 0;
    TANDEM_TRY(cuda_status(cudaEventElapsedTime(&ms, begins_, ends_), "cudaEventElapsedTime"));
    return ms * 1e-3;
  }

 private:
  cuda::NcclRanks* const all_;
  const std::int32_t rank_;
  const int gpu_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begins_ = nullptr;
  cudaEvent_t ends_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  cuda::DeviceMemory data_;
};

}  // namespace

Result<std::vector<double>> measure_nccl_all_reduce(std::span<const int> gpus,
                                                    std::span<const std::int64_t> counts, int calls,
                                                    int rounds) {
  TANDEM_ASSIGN(const auto all, cuda::NcclRanks::create(gpus));
  std::vector<std::unique_ptr<TimedRank>> ranks;
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    ranks.push_back(std::make_unique<TimedRank>(*all, static_cast<std::int32_t>(r), gpus[r]));
  }
  const std::int64_t most = *std::ranges::max_element(counts);
  for (auto& rank : ranks) TANDEM_TRY(rank->prepare(static_cast<std::size_t>(most) * 2));
  // A call of one rank may wait for those of other ranks, so each rank has a thread. A failed rank
  // ends the calls of the others.
  const auto on_all = [&](const auto& body) -> Status {
    std::vector<Status> ended(ranks.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        threads.emplace_back([&, r] {
          ended[r] = body(*ranks[r]);
          if (!ended[r].ok()) all->stop();
        });
      }
    }
    for (Status& status : ended) TANDEM_TRY(std::move(status));
    return {};
  };
  std::vector<double> seconds;
  for (const std::int64_t count : counts) {
    TANDEM_TRY(on_all([&](TimedRank& rank) { return rank.record(count, calls); }));
    std::vector<double> samples;
    for (int round = -2; round < rounds; ++round) {
      TANDEM_TRY(on_all([](TimedRank& rank) { return rank.launch(); }));
      double least = 0;
      for (auto& rank : ranks) {
        TANDEM_ASSIGN(const double took, rank->wait());
        if (rank == ranks.front() || took < least) least = took;
      }
      if (round >= 0) samples.push_back(least / calls);
    }
    std::ranges::nth_element(samples,
                             samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2));
    seconds.push_back(samples[samples.size() / 2]);
  }
  return seconds;
}

}  // namespace tandem
