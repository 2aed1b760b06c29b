// The host device's memory: anonymous mappings under a common limit.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>

#include "gpu/device.h"

namespace tandem::host {

// Thread-safe. Buffers may outlive it. Large buffers start on a 2 MB boundary and ask for huge
// pages; memory that has not been written yet costs nothing.
class MemoryPool {
 public:
  explicit MemoryPool(std::size_t limit_bytes);

  std::size_t limit_bytes() const { return limit_bytes_; }
  std::size_t used_bytes() const { return used_->load(); }
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose);

 private:
  const std::size_t limit_bytes_;
  std::shared_ptr<std::atomic<std::size_t>> used_;
};

// The machine's physical memory.
std::size_t physical_memory_bytes();

}  // namespace tandem::host
