// Allocates byte ranges of an arena: first fit; adjacent free ranges are joined. It only handles
// offsets, and does not own the memory. Giving a range back to the object that it came from never
// allocates, so destructors may do it. Not thread-safe.
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
  // A copy for trials: giving ranges back to it may allocate.
  OffsetAllocator(const OffsetAllocator& other)
      : capacity_(other.capacity_), free_bytes_(other.free_bytes_), holes_(other.holes_) {}
  OffsetAllocator& operator=(const OffsetAllocator&) = delete;

  // A range of at least `bytes` (> 0) at a multiple of kAlignment; no value: no free range is large
  // enough.
  std::optional<std::size_t> take(std::size_t bytes);
  // Gives back a range from take(), with the same size.
  void give_back(std::size_t offset, std::size_t bytes);

  std::size_t capacity() const { return capacity_; }
  std::size_t free_bytes() const { return free_bytes_; }
  std::size_t largest_hole() const;

 private:
  std::size_t capacity_;
  std::size_t free_bytes_;
  using Holes = std::map<std::size_t, std::size_t>;
  Holes holes_;  // offset -> bytes; adjacent ones are joined
  // One node for each range in use, as it may become a free range of its own.
  std::vector<Holes::node_type> spares_;
};

}  // namespace tandem
