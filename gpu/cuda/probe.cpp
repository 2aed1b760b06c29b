#include "gpu/cuda/probe.h"

#include <fmt/format.h>

#include <cstddef>

#if TANDEM_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace tandem {

#if TANDEM_HAVE_CUDA

bool cuda_in_build() {
  return true;
}

std::vector<CudaGpu> list_cuda_gpus() {
  std::vector<CudaGpu> gpus;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return gpus;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    gpus.push_back({properties.name, properties.totalGlobalMem});
  }
  return gpus;
}

std::string describe_cuda() {
  const std::vector<CudaGpu> gpus = list_cuda_gpus();
  std::string text =
      fmt::format("{}.{} runtime, ", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  if (gpus.empty()) return text + "no GPU found";
  for (std::size_t index = 0; index < gpus.size(); ++index) {
    text += fmt::format("{}{} ({} MiB)", index == 0 ? "" : ", ", gpus[index].name,
                        gpus[index].memory_bytes >> 20);
  }
  return text;
}

#else

bool cuda_in_build() {
  return false;
}

std::vector<CudaGpu> list_cuda_gpus() {
  return {};
}

std::string describe_cuda() {
  return "not in this build (no nvcc when it was configured); the host device only";
}

#endif

}  // namespace tandem
