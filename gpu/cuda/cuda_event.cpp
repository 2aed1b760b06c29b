#include "gpu/cuda/cuda_event.h"

#include <chrono>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem::cuda {
namespace {

// Longer than a decode step of a 7B model on any current GPU.
constexpr std::chrono::milliseconds kPoll{10};

void pause_briefly() {
  for (int i = 0; i < 16; ++i) {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }
}

}  // namespace

cudaError_t forget_not_ready(cudaError_t code) {
  if (code == cudaErrorNotReady) (void)cudaGetLastError();
  return code;
}

cudaError_t wait_for(cudaEvent_t event) {
  const auto deadline = std::chrono::steady_clock::now() + kPoll;
  do {
    const cudaError_t code = forget_not_ready(cudaEventQuery(event));
    if (code != cudaErrorNotReady) return code;
    pause_briefly();
  } while (std::chrono::steady_clock::now() < deadline);
  return cudaEventSynchronize(event);
}

CudaEvent::CudaEvent(Timing timing) {
  const unsigned flags = timing == Timing::with ? 0 : cudaEventDisableTiming;
  const cudaError_t code = cudaEventCreateWithFlags(&handle_, flags | cudaEventBlockingSync);
  TANDEM_CHECK(code == cudaSuccess, "cannot create an event: {}", cudaGetErrorString(code));
}

CudaEvent::~CudaEvent() {
  (void)cudaEventDestroy(handle_);
}

bool CudaEvent::passed() const {
  return forget_not_ready(cudaEventQuery(handle_)) != cudaErrorNotReady;
}

void CudaEvent::synchronize() {
  (void)wait_for(handle_);
}

double CudaEvent::seconds_since(const Event& earlier) const {
  float ms = 0;
  const cudaError_t code =
      cudaEventElapsedTime(&ms, static_cast<const CudaEvent&>(earlier).handle_, handle_);
  if (code != cudaSuccess) (void)cudaGetLastError();
  return code == cudaSuccess ? ms * 1e-3 : 0;
}

}  // namespace tandem::cuda
