// Which bytes of an arena are free: contiguous runs, first fit, neighbours joined when they return.
// Offsets only; the memory is somebody else's. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace tandem {

class OffsetAllocator {
 public:
  static constexpr std::size_t kAlignment = 64;

  explicit OffsetAllocator(std::size_t bytes);

  // A run of at least `bytes` (> 0) at a multiple of kAlignment; nothing: no hole is large enough.
  std::optional<std::size_t> take(std::size_t bytes);
  // What take() gave, with the same size.
  void give_back(std::size_t offset, std::size_t bytes);

  std::size_t capacity() const { return capacity_; }
  std::size_t free_bytes() const { return free_bytes_; }
  std::size_t largest_hole() const;

 private:
  std::size_t capacity_;
  std::size_t free_bytes_;
  std::map<std::size_t, std::size_t> holes_;  // offset -> bytes; never two that touch
};

}  // namespace tandem
