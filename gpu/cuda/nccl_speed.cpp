#include "gpu/cuda/nccl_speed.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <thread>

#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/base/device_memory.h"

namespace tandem {
namespace {

using cuda::cuda_status;

// The part of NCCL 2's C interface that is called, so that nothing of it is needed to build.
struct Nccl {
  using Comm = void*;
  static constexpr int kBf16 = 9;
  static constexpr int kSum = 0;

  int (*init_all)(Comm*, int, const int*) = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int, int, Comm, cudaStream_t) = nullptr;
  int (*destroy)(Comm) = nullptr;
  const char* (*describe)(int) = nullptr;

  // Stays loaded: the library has threads of its own.
  static Result<Nccl> load() {
    void* const library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return error(StatusCode::unavailable, "NCCL: {}", ::dlerror());
    Nccl nccl;
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    if (find(nccl.init_all, "ncclCommInitAll") && find(nccl.all_reduce, "ncclAllReduce") &&
        find(nccl.destroy, "ncclCommDestroy") && find(nccl.describe, "ncclGetErrorString")) {
      return nccl;
    }
    return error(StatusCode::unavailable, "NCCL: {}", ::dlerror());
  }
  Status status(int code, std::string_view what) const {
    if (code == 0) return {};
    return error(StatusCode::internal, "NCCL: {} failed: {}", what, describe(code));
  }
};

class NcclRank {
 public:
  NcclRank(const Nccl& nccl, int gpu, Nccl::Comm comm) : nccl_(&nccl), gpu_(gpu), comm_(comm) {}
  ~NcclRank() {
    (void)cudaSetDevice(gpu_);
    if (graph_ != nullptr) (void)cudaGraphExecDestroy(graph_);
    for (cudaEvent_t const event : {begins_, ends_}) {
      if (event != nullptr) (void)cudaEventDestroy(event);
    }
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    (void)nccl_->destroy(comm_);
  }
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

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
    return nccl_->status(
        nccl_->all_reduce(data_.get(), data_.get(), static_cast<std::size_t>(count), Nccl::kBf16,
                          Nccl::kSum, comm_, stream_),
        "an all-reduce");
  }
  Status record(std::int64_t count, int calls) {
    TANDEM_TRY(cuda_status(cudaSetDevice(gpu_), "cudaSetDevice"));
    TANDEM_TRY(reduce(count));  // what it makes at its first call is no part of the recording
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
  const Nccl* const nccl_;
  const int gpu_;
  Nccl::Comm const comm_;
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
  TANDEM_ASSIGN(const Nccl nccl, Nccl::load());
  std::vector<Nccl::Comm> comms(gpus.size());
  TANDEM_TRY(nccl.status(nccl.init_all(comms.data(), static_cast<int>(gpus.size()), gpus.data()),
                         "making a group of the GPUs"));
  std::vector<std::unique_ptr<NcclRank>> ranks;
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    ranks.push_back(std::make_unique<NcclRank>(nccl, gpus[r], comms[r]));
  }
  const std::int64_t most = *std::ranges::max_element(counts);
  for (auto& rank : ranks) TANDEM_TRY(rank->prepare(static_cast<std::size_t>(most) * 2));
  // A call of one rank may wait for the others': a thread each.
  const auto on_all = [&](const auto& body) -> Status {
    std::vector<Status> ended(ranks.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        threads.emplace_back([&, r] { ended[r] = body(*ranks[r]); });
      }
    }
    for (Status& status : ended) TANDEM_TRY(std::move(status));
    return {};
  };
  std::vector<double> seconds;
  for (const std::int64_t count : counts) {
    TANDEM_TRY(on_all([&](NcclRank& rank) { return rank.record(count, calls); }));
    std::vector<double> samples;
    for (int round = -2; round < rounds; ++round) {
      TANDEM_TRY(on_all([](NcclRank& rank) { return rank.launch(); }));
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
