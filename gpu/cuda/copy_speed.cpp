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

// Bytes read plus bytes written per second: the median of several copies between two places.
Result<double> speed_between(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr int kWarmUp = 60;  // 30 ms: the memory's clock is up by then
  std::array<double, 31> speeds{};
  TANDEM_ASSIGN(const TimingEvent begin, create_event());
  TANDEM_ASSIGN(const TimingEvent end, create_event());
  for (int i = -kWarmUp; i < static_cast<int>(speeds.size()); ++i) {
    TANDEM_TRY(cuda_status(cudaEventRecord(begin.get(), nullptr), "cudaEventRecord"));
    TANDEM_TRY(cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr),
                           "cudaMemcpyAsync"));
    TANDEM_TRY(cuda_status(cudaEventRecord(end.get(), nullptr), "cudaEventRecord"));
    if (i < 0) continue;
    TANDEM_TRY(cuda_status(cudaEventSynchronize(end.get()), "a copy in device memory"));
    float ms = 0;
    TANDEM_TRY(
        cuda_status(cudaEventElapsedTime(&ms, begin.get(), end.get()), "cudaEventElapsedTime"));
    speeds[static_cast<std::size_t>(i)] = 2.0 * static_cast<double>(bytes) / (ms * 1e-3);
  }
  std::nth_element(speeds.begin(), speeds.begin() + speeds.size() / 2, speeds.end());
  return speeds[speeds.size() / 2];
}

}  // namespace

Result<double> measure_cuda_copy_speed(int gpu) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;  // far more than any L2 cache
  TANDEM_TRY(cuda_status(cudaSetDevice(gpu), "cudaSetDevice"));
  std::array<cuda::DeviceMemory, 4> memory;
  for (cuda::DeviceMemory& block : memory) {
    TANDEM_ASSIGN(block, cuda::allocate_device_memory(kBytes, "memory to copy"));
    // The bytes are not zeros, because some memories move zeros faster.
    TANDEM_TRY(cuda_status(cudaMemset(block.get(), 0x5A, kBytes), "cudaMemset"));
  }
  double best = 0;
  for (std::size_t to = 0; to < memory.size(); ++to) {
    const std::size_t from = (to + 1) % memory.size();
    TANDEM_ASSIGN(const double speed, speed_between(memory[to].get(), memory[from].get(), kBytes));
    best = std::max(best, speed);
  }
  return best;
}

}  // namespace tandem
