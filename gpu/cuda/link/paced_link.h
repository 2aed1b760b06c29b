// The link to a GPU, slowed: copies to the device go in pieces, and after each a kernel of one
// thread holds the stream until a link of the given speed would have delivered it. So a piece never
// counts as arrived too early. What kernels read and write of host memory is not slowed.
//
// The link's clock is in device memory and all streams of a device book on it. A piece is booked
// from the end of the booking before it when the link was busy till then. When the GPU had no room
// for the kernel in time, the pieces behind catch up: the bookings go on from where they should
// have ended, not from where they did.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/base/status.h"
#include "gpu/cuda/base/device_memory.h"

namespace tandem::cuda {

// In device memory; nanoseconds of the GPU's global timer.
struct LinkClock {
  unsigned long long free_at;   // end of the last booking
  unsigned long long last_end;  // when a stream was last let go
};

// Thread-safe.
class PacedLink {
 public:
  // gigabytes (1e9) per second, above 0.
  static Result<std::unique_ptr<PacedLink>> create(double gigabytes_per_second);

  // The word that a stream keeps for its copies.
  static Result<DeviceMemory> make_booking();

  // As cudaMemcpyAsync to the device, but slower. Copies that a link of this speed delivers within
  // kShortNs are not held, only counted: no copy is faster than that.
  Status copy_to_device(void* device, const void* host, std::size_t bytes,
                        const DeviceMemory& booking, cudaStream_t stream);

  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  static constexpr double kShortNs = 2000;

 private:
  explicit PacedLink(double gigabytes_per_second) : bytes_per_ns_(gigabytes_per_second) {}
  std::uint64_t time_ns(std::size_t bytes) const;

  const double bytes_per_ns_;
  std::atomic<std::size_t> owed_bytes_ = 0;  // of copies that were not held
  DeviceMemory clock_;
};

// pace.cu. Holds the stream until `*booking`, if `hold`; then books `book_ns`, if more than 0, and
// leaves in `*booking` when that will have ended.
Status launch_pace(LinkClock* clock, unsigned long long* booking, bool hold, std::uint64_t book_ns,
                   cudaStream_t stream);

}  // namespace tandem::cuda
