#include "gpu/cuda/collectives/wait_watch.h"

namespace tandem::cuda {

std::optional<std::int32_t> WaitWatch::late(std::span<const std::uint32_t> marks, TimePoint now) {
  for (std::size_t rank = 0; rank < marks.size(); ++rank) {
    Seen& seen = seen_[rank];
    if (marks[rank] != seen.mark) seen = {marks[rank], now};
    const bool is_in_one = seen.mark % 2 != 0;
    if (is_in_one && now - seen.since >= patience_) return static_cast<std::int32_t>(rank);
  }
  return std::nullopt;
}

}  // namespace tandem::cuda
