// The CUDA device's functions in a build without the CUDA toolkit.
#include "gpu/cuda/copy_speed.h"
#include "gpu/cuda/cuda_device.h"
#include "gpu/cuda/nccl_speed.h"

namespace tandem {

bool cuda_in_build() {
  return false;
}

std::vector<CudaGpu> list_cuda_gpus() {
  return {};
}

std::string describe_cuda() {
  return "not in this build (no nvcc when it was configured); the host device only";
}

Result<std::unique_ptr<Device>> make_cuda_device(const CudaDeviceOptions&) {
  return error(StatusCode::unavailable,
               "the CUDA device is not in this build: there was no nvcc when it was configured");
}

Result<double> measure_cuda_copy_speed(int) {
  return error(StatusCode::unavailable, "the CUDA device is not in this build");
}

Result<std::vector<double>> measure_nccl_all_reduce(std::span<const int>,
                                                    std::span<const std::int64_t>, int, int) {
  return error(StatusCode::unavailable, "the CUDA device is not in this build");
}

}  // namespace tandem
