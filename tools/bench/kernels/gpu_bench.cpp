#include "tools/bench/kernels/gpu_bench.h"

#include <algorithm>
#include <cmath>

#include "gpu/cuda/base/cuda_status.h"

namespace tandem::kernels {

using cuda::cuda_status;

namespace {
constexpr std::size_t kFlushBytes = std::size_t{160} << 20;  // L2 is 60 MB on an H200
}

Result<GpuMemory> GpuMemory::create(std::size_t bytes) {
  GpuMemory memory;
  void* data = nullptr;
  TANDEM_TRY(cuda_status(cudaMalloc(&data, bytes), fmt::format("cudaMalloc of {} bytes", bytes)));
  memory.data_ = static_cast<std::byte*>(data);
  memory.bytes_ = bytes;
  return memory;
}

GpuMemory::~GpuMemory() {
  if (data_ != nullptr) (void)cudaFree(data_);
}

double GpuTimes::median() const {
  return percentile(0.5);
}

double GpuTimes::percentile(double share) const {
  std::vector<double> sorted = us;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::min(sorted.size() - 1, std::max<std::size_t>(rank, 1) - 1)];
}

Result<GpuBench> GpuBench::create() {
  GpuBench bench;
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess || count == 0) {
    return error(StatusCode::unavailable, "there is no CUDA GPU to measure here ({})",
                 counted != cudaSuccess ? cudaGetErrorString(counted) : "none found");
  }
  int device = 0;
  TANDEM_TRY(cuda_status(cudaGetDevice(&device), "cudaGetDevice"));
  cudaDeviceProp properties{};
  TANDEM_TRY(cuda_status(cudaGetDeviceProperties(&properties, device), "reading the GPU's name"));
  bench.name_ = properties.name;
  TANDEM_TRY(cuda_status(cudaStreamCreateWithFlags(&bench.stream_, cudaStreamNonBlocking),
                         "creating a stream"));
  TANDEM_TRY(cuda_status(cudaEventCreate(&bench.begin_), "creating an event"));
  TANDEM_TRY(cuda_status(cudaEventCreate(&bench.end_), "creating an event"));
  TANDEM_ASSIGN(bench.flush_, GpuMemory::create(kFlushBytes));
  TANDEM_TRY(fill_random_bf16(bench.flush_.data(), kFlushBytes / 2, 1, 1, bench.stream_));
  TANDEM_TRY(bench.synchronize("filling memory"));
  return bench;
}

GpuBench::GpuBench(GpuBench&& other) noexcept
    : stream_(std::exchange(other.stream_, nullptr)),
      begin_(std::exchange(other.begin_, nullptr)),
      end_(std::exchange(other.end_, nullptr)),
      flush_(std::move(other.flush_)),
      name_(std::move(other.name_)) {}

GpuBench::~GpuBench() {
  if (begin_ != nullptr) (void)cudaEventDestroy(begin_);
  if (end_ != nullptr) (void)cudaEventDestroy(end_);
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

Status GpuBench::synchronize(std::string_view what) {
  return cuda_status(cudaStreamSynchronize(stream_), what);
}

Result<double> GpuBench::copy_bandwidth() {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  TANDEM_ASSIGN(const GpuMemory from, GpuMemory::create(kBytes));
  TANDEM_ASSIGN(const GpuMemory to, GpuMemory::create(kBytes));
  TANDEM_TRY(fill_random_bf16(from.data(), kBytes / 2, 2, 1, stream_));
  double best = 0;
  for (int round = 0; round < 12; ++round) {
    TANDEM_TRY(cuda_status(cudaEventRecord(begin_, stream_), "timing a copy"));
    for (int copy = 0; copy < 4; ++copy) {
      TANDEM_TRY(cuda_status(
          cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, stream_),
          "copying"));
    }
    TANDEM_TRY(cuda_status(cudaEventRecord(end_, stream_), "timing a copy"));
    TANDEM_TRY(synchronize("copying"));
    float ms = 0;
    TANDEM_TRY(cuda_status(cudaEventElapsedTime(&ms, begin_, end_), "timing a copy"));
    if (round >= 2) best = std::max(best, 8.0 * kBytes / (ms * 1e-3));
  }
  return best;
}

Result<GpuTimes> GpuBench::time(int count, int replays, const std::function<Status(int)>& enqueue) {
  TANDEM_TRY(cuda_status(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                         "beginning a capture"));
  Status status = cuda_status(read_all(flush_.data(), flush_.bytes(), stream_), "flushing L2");
  if (status.ok()) {
    status = cuda_status(cudaEventRecordWithFlags(begin_, stream_, cudaEventRecordExternal),
                         "recording an event");
  }
  for (int i = 0; i < count && status.ok(); ++i) status = enqueue(i);
  if (status.ok()) {
    status = cuda_status(cudaEventRecordWithFlags(end_, stream_, cudaEventRecordExternal),
                         "recording an event");
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
  TANDEM_TRY(status);
  TANDEM_TRY(cuda_status(ended, "ending a capture"));
  cudaGraphExec_t replay = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&replay, graph, 0);
  (void)cudaGraphDestroy(graph);
  TANDEM_TRY(cuda_status(made, "instantiating a graph"));
  GpuTimes times;
  for (int round = -3; round < replays && status.ok(); ++round) {
    status = cuda_status(cudaGraphLaunch(replay, stream_), "replaying a graph");
    if (status.ok()) status = synchronize("replaying a graph");
    float ms = 0;
    if (status.ok())
      status = cuda_status(cudaEventElapsedTime(&ms, begin_, end_), "timing a graph");
    if (round >= 0) times.us.push_back(ms * 1e3 / count);
  }
  (void)cudaGraphExecDestroy(replay);
  TANDEM_TRY(status);
  return times;
}

}  // namespace tandem::kernels
