#include "gpu/host/ops/lora_pages.h"

#include <algorithm>
#include <cstring>

namespace tandem::host {

const std::byte* weights_at(const LoraPages& pages, std::int32_t slot, std::uint64_t start,
                            std::int64_t begin, std::int64_t count, AlignedBytes& scratch) {
  const std::uint64_t first = start + static_cast<std::uint64_t>(begin);
  if (pages.base == nullptr) return reinterpret_cast<const std::byte*>(first);
  const std::int32_t* ids = pages.ids + slot * pages.slot_stride;
  const std::uint64_t chunk_bytes = std::uint64_t{1} << pages.shift;
  const auto place = [&](std::uint64_t byte) {
    const auto id = static_cast<std::uint64_t>(ids[byte >> pages.shift]);
    return pages.base + (id << pages.shift) + (byte & (chunk_bytes - 1));
  };
  const std::uint64_t end = first + static_cast<std::uint64_t>(count);
  bool neighbours = true;
  for (std::uint64_t c = first >> pages.shift; c < (end - 1) >> pages.shift; ++c) {
    neighbours = neighbours && ids[c + 1] == ids[c] + 1;
  }
  if (neighbours) return place(first);
  auto* copy = scratch.get<std::byte>(static_cast<std::size_t>(count));
  for (std::uint64_t at = first; at < end;) {
    const std::uint64_t next = std::min(end, (at | (chunk_bytes - 1)) + 1);
    std::memcpy(copy + (at - first), place(at), next - at);
    at = next;
  }
  return copy;
}

}  // namespace tandem::host
