// Lists the GPUs of this machine.
#include <cuda_runtime_api.h>

#include <cstdlib>

#include "gpu/cuda/cuda_device.h"

namespace tandem {

bool cuda_in_build() {
  return true;
}

std::vector<CudaGpu> list_cuda_gpus() {
  // Set before the driver starts, so that it loads all kernels then. By default a kernel is loaded
  // at its first launch, and the step that launches it waits for milliseconds. A value set by the
  // user stays.
  (void)::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  std::vector<CudaGpu> gpus;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return gpus;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    gpus.push_back(
        {properties.name, properties.totalGlobalMem, properties.major, properties.minor});
  }
  return gpus;
}

std::string describe_cuda() {
  const std::vector<CudaGpu> gpus = list_cuda_gpus();
  std::string text = fmt::format("{}.{} runtime, code for {}, ", CUDART_VERSION / 1000,
                                 CUDART_VERSION % 1000 / 10, TANDEM_CUDA_CODE);
  if (gpus.empty()) return text + "no GPU found";
  for (std::size_t index = 0; index < gpus.size(); ++index) {
    text += fmt::format("{}{} ({} MiB)", index == 0 ? "" : ", ", gpus[index].name,
                        gpus[index].memory_bytes >> 20);
  }
  return text;
}

}  // namespace tandem
