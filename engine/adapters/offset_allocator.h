// Which bytes of an arena are free: contiguous runs, first fit, neighbours joined when they return.
// Offsets only; the memory is somebody else's. Giving back what this very object gave takes no
// memory, so that destructors may. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

namespace tandem {

class OffsetAllocator {
 public:
  static constexpr std::size_t kAlignment = 64;

  explicit OffsetAllocator(std::size_t bytes);
  // To try things out: giving back to the copy may allocate.
  OffsetAllocator(const OffsetAllocator& other)
      : capacity_(other.capacity_), free_bytes_(other.free_bytes_), holes_(other.holes_) {}
  OffsetAllocator& operator=(const OffsetAllocator&) = delete;

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
  using Holes = std::map<std::size_t, std::size_t>;
  Holes holes_;  // offset -> bytes; never two that touch
  // One for each run that is out, as it may come back as a hole of its own.
  std::vector<Holes::node_type> spares_;
};

}  // namespace tandem
