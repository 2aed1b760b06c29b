// A point in a CUDA stream's order: a cudaEvent_t.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/device.h"

namespace tandem::cuda {

// Blocks the calling thread until the event has passed or its context is lost; the code says which.
// A decode step takes a few milliseconds and waking a blocked thread tens of microseconds, so the
// thread polls for as long as such a step before it blocks. Leaves no error behind in the thread.
cudaError_t wait_for(cudaEvent_t event);

// cudaEventQuery and cudaStreamQuery leave cudaErrorNotReady behind as the thread's last error,
// where a launcher that peeks would take it for its own; this forgets it.
cudaError_t forget_not_ready(cudaError_t code);

// An event of a lost context has passed: nobody may wait for ever.
class CudaEvent final : public Event {
 public:
  enum class Timing : std::uint8_t { without, with };

  explicit CudaEvent(Timing timing = Timing::without);  // aborts if the context is lost
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool passed() const override;
  void synchronize() override;
  double seconds_since(const Event& earlier) const override;
  cudaEvent_t handle() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

}  // namespace tandem::cuda
