// The emulated device: all of gpu/device.h on the CPU, so that the serving path can run and be
// tested on any machine. Streams are threads, the operations share one thread pool, and copies to
// the device can be slowed to the speed of a real link.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "gpu/device.h"

namespace tandem {

struct HostDeviceOptions {
  int num_threads = 0;    // 0: one per entry of `cpus`, or per allowed CPU
  std::vector<int> cpus;  // OS ids of CPUs to pin the compute threads to; empty: not pinned
  double link_gbps = 0;   // gigabytes (1e9) per second of copy_to_device; 0: not throttled
  std::size_t memory_limit_bytes = 0;  // for all allocations together; 0: the physical memory
};

// Streams must be destroyed before their device; buffers and events may outlive it.
Result<std::unique_ptr<Device>> make_host_device(const HostDeviceOptions& options);

}  // namespace tandem
