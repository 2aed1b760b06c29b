#include "engine/memory/chunk_table.h"

#include <algorithm>

#include "base/check.h"
#include "engine/memory/page_pool.h"

namespace tandem {

ChunkTable::ChunkTable(ChunkTable&& other) noexcept
    : pool_(other.pool_), ids_(std::exchange(other.ids_, {})) {}

ChunkTable& ChunkTable::operator=(ChunkTable&& other) noexcept {
  if (this != &other) {
    clear();
    pool_ = other.pool_;
    ids_ = std::exchange(other.ids_, {});
  }
  return *this;
}

void ChunkTable::clear() {
  for (const ChunkId id : ids_) pool_->give_back(id);
  ids_.clear();
}

std::vector<ChunkRun> ChunkTable::runs(std::size_t begin, std::size_t end,
                                       std::int32_t shift) const {
  TANDEM_CHECK(begin <= end && end <= ids_.size() << shift, "bytes {} .. {} of {} chunks", begin,
               end, ids_.size());
  std::vector<ChunkRun> result;
  while (begin < end) {
    const std::size_t index = begin >> shift;
    const std::size_t chunk_end = std::min(end, (index + 1) << shift);
    const std::size_t to = (ids_[index].index() << shift) + (begin - (index << shift));
    if (!result.empty() && result.back().to + result.back().bytes == to) {
      result.back().bytes += chunk_end - begin;
    } else {
      result.push_back({begin, to, chunk_end - begin});
    }
    begin = chunk_end;
  }
  return result;
}

}  // namespace tandem
