// A read-only memory mapping of a file.
#pragma once

#include <cstddef>
#include <span>

#include "base/file/file.h"
#include "base/status.h"

namespace tandem {

// Move-only. Thread-safe. Reads beyond the end of a truncated file raise SIGBUS, so this is only
// for checkpoints, which nobody changes while they are read; adapters are read through File.
class MappedFile {
 public:
  static Result<MappedFile> map(const File& file);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // Fetches the pages under `range` in one call, which costs less than one fault for every few of
  // them.
  void fetch(std::span<const std::byte> range) const;
  // Releases the pages under `range`, so that they no longer count as this process's memory. They
  // can be read again.
  void drop(std::span<const std::byte> range) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  void advise(std::span<const std::byte> range, int advice) const;

  std::span<const std::byte> bytes_;
};

}  // namespace tandem
