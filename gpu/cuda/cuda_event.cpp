#include "gpu/cuda/cuda_event.h"

#include <chrono>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem::cuda {
namespace {

// Longer than a decode step of a 7B model on any GPU of today.
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

CudaEvent::CudaEvent() {
  const cudaError_t code =
      cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming | cudaEventBlockingSync);
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

}  // namespace tandem::cuda
