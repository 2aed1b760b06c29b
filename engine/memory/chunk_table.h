// The chunks of one adapter, in the order of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids/strong_id.h"

namespace tandem {

class PagePool;
// A piece of the pool's memory: chunk c is the c-th from the start (KvCache::chunk_base).
using ChunkId = StrongId<struct ChunkTag>;

// A piece of an adapter's bytes that is contiguous in the pool too, so that one copy suffices.
struct ChunkRun {
  std::size_t from = 0;  // offset in the adapter
  std::size_t to = 0;    // offset in the pool
  std::size_t bytes = 0;
};

// Owns its chunks and returns them to the pool when destroyed (on the engine thread). Move-only.
class ChunkTable {
 public:
  ChunkTable() = default;
  ChunkTable(ChunkTable&& other) noexcept;
  ChunkTable& operator=(ChunkTable&& other) noexcept;
  ~ChunkTable() { clear(); }

  std::span<const ChunkId> ids() const { return ids_; }
  bool empty() const { return ids_.empty(); }
  void clear();

  // Splits bytes [begin, end) of the adapter into as few contiguous copies as possible. `shift` is
  // the layout's chunk_shift.
  std::vector<ChunkRun> runs(std::size_t begin, std::size_t end, std::int32_t shift) const;

 private:
  friend class PagePool;
  ChunkTable(PagePool& pool, std::vector<ChunkId> ids) : pool_(&pool), ids_(std::move(ids)) {}

  PagePool* pool_ = nullptr;
  std::vector<ChunkId> ids_;
};

}  // namespace tandem
