// A file that exists only in memory, for readers that need a path.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "base/check.h"

namespace tandem::fuzz {

class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("tandem-fuzz", MFD_CLOEXEC)) {
    TANDEM_CHECK(descriptor_ >= 0);
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(std::string_view bytes) const {
    TANDEM_CHECK(::ftruncate(descriptor_, 0) == 0);
    const auto wanted = static_cast<ssize_t>(bytes.size());
    TANDEM_CHECK(::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == wanted);
  }
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

}  // namespace tandem::fuzz
