#include "engine/adapters/offset_allocator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + OffsetAllocator::kAlignment - 1) / OffsetAllocator::kAlignment *
         OffsetAllocator::kAlignment;
}

}  // namespace

OffsetAllocator::OffsetAllocator(std::size_t bytes)
    : capacity_(bytes / kAlignment * kAlignment), free_bytes_(capacity_) {
  if (capacity_ > 0) holes_.emplace(0, capacity_);
}

std::optional<std::size_t> OffsetAllocator::take(std::size_t bytes) {
  TANDEM_CHECK(bytes > 0);
  if (bytes > free_bytes_) return std::nullopt;
  const std::size_t wanted = aligned(bytes);
  const auto hole = std::find_if(holes_.begin(), holes_.end(),
                                 [&](const auto& each) { return each.second >= wanted; });
  if (hole == holes_.end()) return std::nullopt;
  const auto [offset, size] = *hole;
  Holes made;
  made.emplace(0, 0);
  spares_.push_back(made.extract(made.begin()));
  auto rest = holes_.extract(hole);
  if (size > wanted) {
    rest.key() += wanted;
    rest.mapped() -= wanted;
    holes_.insert(std::move(rest));
  }
  free_bytes_ -= wanted;
  return offset;
}

void OffsetAllocator::give_back(std::size_t offset, std::size_t bytes) {
  std::size_t size = aligned(bytes);
  TANDEM_CHECK(bytes > 0 && offset % kAlignment == 0 && offset + size <= capacity_,
               "{} bytes at {} of {}", bytes, offset, capacity_);
  free_bytes_ += size;
  const auto after = holes_.lower_bound(offset);
  const auto before = after == holes_.begin() ? holes_.end() : std::prev(after);
  TANDEM_CHECK(after == holes_.end() || offset + size <= after->first, "freed twice: {}", offset);
  TANDEM_CHECK(before == holes_.end() || before->first + before->second <= offset,
               "freed twice: {}", offset);
  if (after != holes_.end() && offset + size == after->first) {
    size += after->second;
    holes_.erase(after);
  }
  if (before != holes_.end() && before->first + before->second == offset) {
    before->second += size;
  } else if (spares_.empty()) {
    holes_.emplace(offset, size);
    return;
  } else {
    spares_.back().key() = offset;
    spares_.back().mapped() = size;
    holes_.insert(std::move(spares_.back()));
  }
  if (!spares_.empty()) spares_.pop_back();
}

std::size_t OffsetAllocator::largest_hole() const {
  std::size_t largest = 0;
  for (const auto& [offset, size] : holes_) largest = std::max(largest, size);
  return largest;
}

}  // namespace tandem
