#include "gpu/cuda/copy_speed.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>

#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/base/device_memory.h"

namespace tandem {
namespace {

using cuda::cuda_status;

struct EventRelease {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using TimingEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventRelease>;

Result<TimingEvent> create_event() {
  cudaEvent_t event = nullptr;
  TANDEM_TRY(cuda_status(cudaEventCreate(&event), "cudaEventCreate"));
  return TimingEvent(event);
}

}  // namespace

Result<double> measure_cuda_copy_speed(int gpu) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;  // far more than any L2 cache
  constexpr int kWarmUp = 3;
  std::array<double, 15> speeds{};
  TANDEM_TRY(cuda_status(cudaSetDevice(gpu), "cudaSetDevice"));
  TANDEM_ASSIGN(const auto from, cuda::allocate_device_memory(kBytes, "memory to copy"));
  TANDEM_ASSIGN(const auto to, cuda::allocate_device_memory(kBytes, "memory to copy to"));
  TANDEM_ASSIGN(const TimingEvent begin, create_event());
  TANDEM_ASSIGN(const TimingEvent end, create_event());
  // Not zeros: some memories move those faster.
  TANDEM_TRY(cuda_status(cudaMemset(from.get(), 0x5A, kBytes), "cudaMemset"));
  for (int i = -kWarmUp; i < static_cast<int>(speeds.size()); ++i) {
    TANDEM_TRY(cuda_status(cudaEventRecord(begin.get(), nullptr), "cudaEventRecord"));
    TANDEM_TRY(cuda_status(
        cudaMemcpyAsync(to.get(), from.get(), kBytes, cudaMemcpyDeviceToDevice, nullptr),
        "cudaMemcpyAsync"));
    TANDEM_TRY(cuda_status(cudaEventRecord(end.get(), nullptr), "cudaEventRecord"));
    TANDEM_TRY(cuda_status(cudaEventSynchronize(end.get()), "a copy in device memory"));
    float ms = 0;
    TANDEM_TRY(
        cuda_status(cudaEventElapsedTime(&ms, begin.get(), end.get()), "cudaEventElapsedTime"));
    if (i >= 0)
      speeds[static_cast<std::size_t>(i)] = 2.0 * static_cast<double>(kBytes) / (ms * 1e-3);
  }
  std::nth_element(speeds.begin(), speeds.begin() + speeds.size() / 2, speeds.end());
  return speeds[speeds.size() / 2];
}

}  // namespace tandem
