// A point in a CUDA stream's order: a cudaEvent_t.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/device.h"

namespace tandem::cuda {

// Blocks the calling thread until the event has passed or its context is lost; the code says which.
// A decode step takes a few milliseconds and waking a blocked thread takes tens of microseconds, so
// the thread first polls for about as long as such a step. Leaves no CUDA error in the thread.
cudaError_t wait_for(cudaEvent_t event);

// cudaEventQuery and cudaStreamQuery leave cudaErrorNotReady as the thread's last error, which a
// launcher that peeks would mistake for its own; this clears it.
cudaError_t forget_not_ready(cudaError_t code);

// An event of a lost context counts as passed, so that no thread waits for ever.
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
