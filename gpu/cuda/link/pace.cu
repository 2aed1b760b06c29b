// One thread that holds its stream until a time, and books the link for the next piece.
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/link/paced_link.h"

namespace tandem::cuda {
namespace {

// From the end of one copy to the booking of the next, when they follow each other on a stream. A
// busy GPU has room for the kernel of one thread some time later only, which a link knows nothing
// of: with 20 us loads in small pieces took half as long again as they should.
constexpr unsigned long long kGapNs = 100'000;

__device__ __forceinline__ unsigned long long now_ns() {
  unsigned long long value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value)::"memory");
  return value;
}

__global__ void pace(LinkClock* clock, unsigned long long* booking, bool hold,
                     unsigned long long book_ns) {
  unsigned long long now = now_ns();
  if (hold) {
    const unsigned long long end = *booking;
    while (now < end) {
      __nanosleep(static_cast<unsigned>(min(end - now, 1000ULL)));
      now = now_ns();
    }
    atomicMax(&clock->last_end, now);
  }
  if (book_ns == 0) return;
  unsigned long long free_at = atomicAdd(&clock->free_at, 0ULL);
  while (true) {
    // Streams do not wait for each other, so the clock may already be ahead.
    const bool goes_on = hold || now <= atomicAdd(&clock->last_end, 0ULL) + kGapNs;
    const unsigned long long start = goes_on ? free_at : max(now, free_at);
    const unsigned long long seen = atomicCAS(&clock->free_at, free_at, start + book_ns);
    if (seen == free_at) {
      *booking = start + book_ns;
      return;
    }
    free_at = seen;
  }
}

}  // namespace

Status launch_pace(LinkClock* clock, unsigned long long* booking, bool hold, std::uint64_t book_ns,
                   cudaStream_t stream) {
  return launch_kernel("pacing the link", {.grid = dim3(1), .block = dim3(1)}, stream, pace, clock,
                       booking, hold, static_cast<unsigned long long>(book_ns));
}

}  // namespace tandem::cuda
