// Helpers for benchmarks of kernels: device memory, random contents, cold caches, timing by replays
// of a captured graph, and the copy bandwidth to compare with.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tandem::kernels {

// Device memory of a benchmark; move-only.
class GpuMemory {
 public:
  GpuMemory() = default;
  static Result<GpuMemory> create(std::size_t bytes);
  GpuMemory(GpuMemory&& other) noexcept {
    std::swap(data_, other.data_), std::swap(bytes_, other.bytes_);
  }
  GpuMemory& operator=(GpuMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~GpuMemory();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

struct GpuTimes {
  std::vector<double> us;  // per operation, one per replay
  double median() const;
  double percentile(double share) const;
};

class GpuBench {
 public:
  static Result<GpuBench> create();
  GpuBench(GpuBench&& other) noexcept;
  GpuBench& operator=(GpuBench&&) = delete;
  ~GpuBench();

  cudaStream_t stream() const { return stream_; }
  const std::string& gpu_name() const { return name_; }
  // Bytes read plus bytes written per second by device-to-device copies of a gigabyte; best of ten.
  Result<double> copy_bandwidth();

  // Captures a read of more than the L2 cache, then `count` operations (enqueue(i)), and replays
  // this `replays` times after a warm-up. Returns the time per operation, without the read.
  Result<GpuTimes> time(int count, int replays, const std::function<Status(int)>& enqueue);
  Status synchronize(std::string_view what);

 private:
  GpuBench() = default;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  GpuMemory flush_;
  std::string name_;
};

// Fills with bf16 numbers uniform in [-scale, scale), from a counter-based generator.
Status fill_random_bf16(void* data, std::size_t elements, std::uint64_t seed, float scale,
                        cudaStream_t stream);
// Reads all of `data`, so that the cache holds nothing else.
cudaError_t read_all(const void* data, std::size_t bytes, cudaStream_t stream);

}  // namespace tandem::kernels
