#include "gpu/cuda/cuda_device.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "gpu/cuda/attention/kernels.h"
#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/collectives/cuda_communicator.h"
#include "gpu/cuda/cuda_event.h"
#include "gpu/cuda/cuda_stream.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/gemm/cublas_lt.h"
#include "gpu/cuda/link/paced_link.h"
#include "gpu/cuda/packed/layout.h"

namespace tandem {
namespace cuda {
namespace {

constexpr int kLowestMajor = 8;

double gigabytes(std::size_t bytes) {
  return static_cast<double>(bytes) * 1e-9;
}

class CudaDevice final : public Device {
 public:
  // `link` may be null.
  CudaDevice(const CudaDeviceOptions& options, const CudaGpu& found,
             std::unique_ptr<PacedLink> link)
      : gpu_(options.gpu),
        group_(options.group),
        is_hopper_(found.major == 9),
        link_(std::move(link)) {
    info_.name = found.name;
    info_.memory_bytes = found.memory_bytes;
    info_.is_cuda = true;
  }

  const DeviceInfo& info() const override { return info_; }
  std::int64_t max_head_dim() const override { return kMaxSimpleHeadDim; }
  // Those that products of few rows multiply by (gpu/cuda/gemm/packed). Others would be dequantised
  // in every step, at a third of the speed of dense weights.
  bool keeps_packed(const WeightForm& form, std::int64_t rows, std::int64_t cols,
                    DType x) const override {
    return is_hopper_ && x != DType::f32 && can_arrange(form, rows, cols);
  }

  void keep_to(std::span<const int> cpus) override {
    if (link_ != nullptr) link_->keep_to(cpus);
  }

  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    void* data = nullptr;
    TANDEM_TRY(cuda_status(use_gpu(gpu_), "cudaSetDevice"));
    const cudaError_t code = cudaMalloc(&data, std::max<std::size_t>(bytes, 1));
    if (code == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      return error(StatusCode::resource_exhausted,
                   "not enough GPU memory for {}: it needs {:.2f} GB, and {:.2f} GB of {:.2f} GB "
                   "are free on {}",
                   purpose, gigabytes(bytes), gigabytes(free_bytes()),
                   gigabytes(info_.memory_bytes), info_.name);
    }
    TANDEM_TRY(cuda_status(code, fmt::format("allocating {} bytes for {}", bytes, purpose)));
    return Buffer(static_cast<std::byte*>(data), bytes, false,
                  [](std::byte* memory, std::size_t) { (void)cudaFree(memory); });
  }

  Result<Buffer> allocate_pinned(std::size_t bytes, std::string_view purpose) override {
    void* data = nullptr;
    TANDEM_TRY(cuda_status(use_gpu(gpu_), "cudaSetDevice"));
    const cudaError_t code =
        cudaHostAlloc(&data, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable);
    TANDEM_TRY(pinned(code, bytes, purpose));
    return Buffer(static_cast<std::byte*>(data), bytes, true,
                  [](std::byte* memory, std::size_t) { (void)cudaFreeHost(memory); });
  }

  Result<Buffer> pin(std::byte* data, std::size_t bytes, std::string_view purpose) override {
    TANDEM_TRY(cuda_status(use_gpu(gpu_), "cudaSetDevice"));
    // Mapped: kernels also use it at this address (the handoff asks whether the GPU can).
    constexpr unsigned kFlags = cudaHostRegisterPortable | cudaHostRegisterMapped;
    TANDEM_TRY(pinned(cudaHostRegister(data, bytes, kFlags), bytes, purpose));
    return Buffer(data, bytes, true,
                  [](std::byte* memory, std::size_t) { (void)cudaHostUnregister(memory); });
  }

  std::size_t free_bytes() const override {
    std::size_t free = 0;
    std::size_t total = 0;
    if (use_gpu(gpu_) != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess) return 0;
    return free;
  }

  Result<std::unique_ptr<Stream>> create_stream(std::string_view name) override {
    TANDEM_ASSIGN(auto stream, CudaStream::create(gpu_, name, link_.get()));
    return std::unique_ptr<Stream>(std::move(stream));
  }

  std::unique_ptr<Event> create_event() override {
    (void)use_gpu(gpu_);
    return std::make_unique<CudaEvent>();
  }
  std::unique_ptr<Event> create_timed_event() override {
    (void)use_gpu(gpu_);
    return std::make_unique<CudaEvent>(CudaEvent::Timing::with);
  }
  Result<std::vector<std::unique_ptr<Communicator>>> connect(
      std::span<Device* const> devices) override {
    constexpr auto kMost = static_cast<std::size_t>(Communicator::kMaxRanks);
    if (devices.empty() || devices.size() > kMost) {
      return invalid("a group has 1 to {} devices, not {}", kMost, devices.size());
    }
    std::vector<int> gpus;
    for (Device* const device : devices) {
      const auto* const gpu = dynamic_cast<const CudaDevice*>(device);
      if (gpu == nullptr) return invalid("GPUs and host devices cannot be one group");
      gpus.push_back(gpu->gpu_);
    }
    TANDEM_ASSIGN(const std::shared_ptr<CudaGroup> group, CudaGroup::create(gpus, *this, group_));
    std::vector<std::unique_ptr<Communicator>> ends;
    for (Device* const device : devices) {
      const auto rank = static_cast<std::int32_t>(ends.size());
      ends.push_back(std::make_unique<CudaCommunicator>(group, rank, *device));
    }
    return ends;
  }

 private:
  static Status pinned(cudaError_t code, std::size_t bytes, std::string_view purpose) {
    if (code != cudaErrorMemoryAllocation) {
      if (code != cudaSuccess) (void)cudaGetLastError();
      return cuda_status(code, fmt::format("pinning {} bytes for {}", bytes, purpose));
    }
    (void)cudaGetLastError();
    return error(StatusCode::resource_exhausted,
                 "not enough host memory that can be pinned for {}: it needs {:.2f} GB", purpose,
                 gigabytes(bytes));
  }

  const int gpu_;
  const GroupOptions group_;
  const bool is_hopper_;
  const std::unique_ptr<PacedLink> link_;
  DeviceInfo info_;
};

// The reason why no CUDA device can start, whichever GPU is asked for.
Status no_gpu_status() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  if (code == cudaErrorInsufficientDriver) {
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    if (driver == 0) {
      return error(StatusCode::unavailable, "no NVIDIA driver found; the CUDA device needs one");
    }
    return error(StatusCode::unavailable,
                 "the NVIDIA driver is for CUDA {}.{} and this program needs {}.{} or newer; "
                 "update the driver",
                 driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                 CUDART_VERSION % 1000 / 10);
  }
  return error(StatusCode::unavailable, "no CUDA GPU found: {}", cudaGetErrorString(code));
}

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<Device>> make_cuda_device(const CudaDeviceOptions& options) {
  const std::vector<CudaGpu> gpus = list_cuda_gpus();
  if (gpus.empty()) return cuda::no_gpu_status();
  if (options.gpu < 0 || static_cast<std::size_t>(options.gpu) >= gpus.size()) {
    return invalid("there is no GPU {}: this machine has {}, counted from 0", options.gpu,
                   gpus.size());
  }
  if (!(options.link_gbps >= 0)) {
    return invalid("link_gbps is {}: give gigabytes per second, or 0 for no limit",
                   options.link_gbps);
  }
  const CudaGpu& gpu = gpus[static_cast<std::size_t>(options.gpu)];
  if (gpu.major < cuda::kLowestMajor) {
    return error(StatusCode::unavailable,
                 "GPU {} is a {} of compute capability {}.{}; the CUDA device needs {}.0 (Ampere) "
                 "or higher",
                 options.gpu, gpu.name, gpu.major, gpu.minor, cuda::kLowestMajor);
  }
  TANDEM_TRY(cuda::cuda_status(cuda::use_gpu(options.gpu), "cudaSetDevice"));
  // Creates the context; a broken driver or a GPU held by another process shows here.
  TANDEM_TRY(cuda::cuda_status(cudaFree(nullptr), fmt::format("starting GPU {}", options.gpu)));
  if (!cuda::kernels_fit_gpu(gpu.major)) {
    (void)cudaGetLastError();
    return error(StatusCode::unavailable,
                 "this program has code for {} and GPU {} is a {} of sm_{}{}; build it with "
                 "TANDEM_CUDA_ARCHITECTURES={}{}",
                 TANDEM_CUDA_CODE, options.gpu, gpu.name, gpu.major, gpu.minor, gpu.major,
                 gpu.minor);
  }
  // Checked here, where a missing library is a reason to choose another device, rather than when a
  // model is loaded.
  TANDEM_TRY(cuda::CublasLt::get().status());
  std::unique_ptr<cuda::PacedLink> link;
  if (options.link_gbps > 0) link = cuda::PacedLink::create(options.link_gbps);
  return std::unique_ptr<Device>(std::make_unique<cuda::CudaDevice>(options, gpu, std::move(link)));
}

}  // namespace tandem
