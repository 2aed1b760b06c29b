#include "gpu/cuda/link/paced_link.h"

#include <algorithm>
#include <cmath>

#include "gpu/cuda/base/cuda_status.h"

namespace tandem::cuda {
namespace {

Result<DeviceMemory> make_zeroed(std::size_t bytes) {
  TANDEM_ASSIGN(DeviceMemory memory, allocate_device_memory(bytes, "the clock of a slowed link"));
  TANDEM_TRY(
      cuda_status(cudaMemset(memory.get(), 0, bytes), "clearing the clock of a slowed link"));
  // The streams that will use it do not wait for the default one.
  TANDEM_TRY(cuda_status(cudaStreamSynchronize(nullptr), "clearing the clock of a slowed link"));
  return memory;
}

}  // namespace

Result<std::unique_ptr<PacedLink>> PacedLink::create(double gigabytes_per_second) {
  std::unique_ptr<PacedLink> link(new PacedLink(gigabytes_per_second));
  TANDEM_ASSIGN(link->clock_, make_zeroed(sizeof(LinkClock)));
  return link;
}

Result<DeviceMemory> PacedLink::make_booking() {
  return make_zeroed(sizeof(unsigned long long));
}

std::uint64_t PacedLink::time_ns(std::size_t bytes) const {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_ns_));
}

Status PacedLink::copy_to_device(void* device, const void* host, std::size_t bytes,
                                 const DeviceMemory& booking, cudaStream_t stream) {
  const auto copy = [&](std::size_t begin, std::size_t count) {
    return cuda_status(cudaMemcpyAsync(static_cast<std::byte*>(device) + begin,
                                       static_cast<const std::byte*>(host) + begin, count,
                                       cudaMemcpyHostToDevice, stream),
                       "cudaMemcpyAsync");
  };
  if (static_cast<double>(bytes) / bytes_per_ns_ < kShortNs) {
    owed_bytes_.fetch_add(bytes, std::memory_order_relaxed);  // relaxed: a sum
    return copy(0, bytes);
  }
  auto* clock = reinterpret_cast<LinkClock*>(clock_.get());
  auto* word = reinterpret_cast<unsigned long long*>(booking.get());
  const std::size_t owed = owed_bytes_.exchange(0, std::memory_order_relaxed);
  TANDEM_TRY(launch_pace(clock, word, false, time_ns(std::min(kPieceBytes, bytes) + owed), stream));
  for (std::size_t begin = 0; begin < bytes;) {
    const std::size_t count = std::min(kPieceBytes, bytes - begin);
    TANDEM_TRY(copy(begin, count));
    begin += count;
    TANDEM_TRY(
        launch_pace(clock, word, true, time_ns(std::min(kPieceBytes, bytes - begin)), stream));
  }
  return {};
}

}  // namespace tandem::cuda
