// The fixed pool of pages that KV and adapters share (S-LoRA's Unified Paging).
//
// A page is free, or holds KV (referenced by any number of block tables, and perhaps kept by the
// prefix cache), or holds chunks of adapters. Ids only: the memory that they stand for is
// KvCache's.
//
// When pages run out the pool takes from its reclaimables, what is worth least first over all of
// them, until the request fits: an adapter and the KV that it computed are weighed on one scale. It
// decides nothing else: who of the running gives way is the scheduler's choice.
//
// Giving back never allocates. Not thread-safe: the engine thread alone owns it, and what it hands
// out is given back there. A page may be given back and taken again while a step that uses it is
// still under way: what is enqueued later on the compute stream comes after it. Another stream that
// writes (adapter loads) must wait for the last step that was enqueued before the pages were taken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/memory/chunk_table.h"
#include "engine/memory/free_pages.h"
#include "engine/memory/reclaimable.h"

namespace tandem {

// Every page is in one of the first four.
struct PoolCounts {
  std::int32_t free = 0;
  std::int32_t kv = 0;      // referenced by a block table
  std::int32_t cached = 0;  // by the prefix cache alone
  std::int32_t adapter = 0;
  std::int64_t chunks = 0;        // held by adapters
  std::int64_t spare_chunks = 0;  // free, but in pages of adapters: of no use to KV
};

struct PoolShape {
  std::int32_t num_pages = 0;
  std::int32_t page_tokens = 0;
  std::int32_t chunks_per_page = 1;
  std::int32_t pages_for(std::int64_t tokens) const {
    return static_cast<std::int32_t>((tokens + page_tokens - 1) / page_tokens);
  }
};

// What bringing something back takes, in seconds. Zero: not known, and only age counts.
struct ReclaimCosts {
  double kv_page = 0;       // to compute the tokens of a page once more
  double adapter_byte = 0;  // to copy to the device
};

// What is told in steps and uses instead of seconds, and what uses make of seconds.
class PoolClock {
 public:
  // How many steps have been enqueued: those that may read a page that is given back now. Told by
  // who enqueues them, for streams that do not come after the compute stream (adapter loads).
  void step_enqueued() { ++steps_; }
  std::uint64_t steps() const { return steps_; }
  // A moment later than all before it: the time of a use, comparable over all reclaimables.
  std::uint64_t stamp() { return ++uses_; }

  // Of what is used now, has been used so many times in all, and would take `seconds_per_page` to
  // be brought back: GreedyDual-Size with Frequency (Cherkasova, 1998). It is above what went last,
  // so that what nobody uses any more falls behind, however much was made of it once.
  Worth worth(std::uint64_t uses, double seconds_per_page) {
    const auto counted = static_cast<double>(std::min(uses, kMostUses));
    return {went_last_ + counted * seconds_per_page, stamp()};
  }
  void went(const Worth& worth) { went_last_ = std::max(went_last_, worth.seconds); }
  // So many count: more would take long to be forgotten when what is popular changes.
  static constexpr std::uint64_t kMostUses = 16;

 private:
  std::uint64_t steps_ = 0;
  std::uint64_t uses_ = 0;
  double went_last_ = 0;  // the seconds of its worth
};

class PagePool {
 public:
  PagePool(std::int32_t num_pages, std::int32_t page_tokens, std::int32_t chunks_per_page = 1);
  ~PagePool();  // every page must have come back
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  const PoolShape& shape() const { return shape_; }
  PoolClock& clock() { return clock_; }
  // Of uses from now on; finite, not negative.
  void set_costs(const ReclaimCosts& costs) { costs_ = costs; }
  const ReclaimCosts& costs() const { return costs_; }
  std::int32_t num_free() const { return free_.count(); }
  PoolCounts counts() const;

  // Adapters: `count` chunks, whole pages first and adjacent where possible. All or nothing, also
  // where there is no memory for their list (it throws).
  std::optional<ChunkTable> take_chunks(std::int64_t count);

  // PoolClock::steps() when the last of these chunks' pages was given back, by KV or by adapters.
  std::uint64_t last_release(std::span<const ChunkId> chunks) const;

  // Registered until removed; both outlive their registration.
  void add(Reclaimable& reclaimable);
  void remove(Reclaimable& reclaimable);
  // Free pages, and those that reclaimables would give: about what can be had.
  std::int64_t available_pages() const;
  // Reclaims until `count` pages are free; false when there are not so many.
  [[nodiscard]] bool make_room(std::int64_t count);

  // KV, for BlockTable and the prefix cache. A page is free when its last reference goes.
  PageId take_page();           // one reference; requires num_free() > 0
  void reference(PageId page);  // one more; requires that the page holds KV
  void drop_reference(PageId page);
  void set_cached(PageId page);  // a reference that counts as the prefix cache's
  void drop_cached(PageId page);

 private:
  friend class ChunkTable;
  using Partial = std::set<std::pair<std::int32_t, PageId>>;
  struct Page {
    std::int32_t references = 0;  // the cache's included
    std::int32_t chunks = 0;      // owned by adapters
    bool cached = false;
    std::uint64_t released = 0;  // PoolClock::steps() when it, or a chunk of it, was given back
    Partial::node_type partial;  // its place in partial_, while it is not in there
  };

  PageId page_of(ChunkId chunk) const { return PageId(chunk.value() / shape_.chunks_per_page); }
  Page& kv_page(PageId page);
  bool reclaim_one();
  void note_partial(PageId page, std::int32_t chunks_before);
  void take_from_page(PageId page, std::int32_t count, std::vector<ChunkId>& ids);
  void take_tail(std::int64_t count, std::vector<ChunkId>& ids);
  void give_back(ChunkId chunk);

  const PoolShape shape_;
  PoolClock clock_;
  ReclaimCosts costs_;
  FreePages free_;
  std::vector<Page> pages_;
  std::vector<bool> chunk_owned_;  // [num_pages * chunks_per_page]
  // Adapter pages with room, by how many chunks are free in them.
  Partial partial_;
  std::int32_t idle_pages_ = 0;  // cached, no other reference
  std::int32_t adapter_pages_ = 0;
  std::int64_t chunks_ = 0;  // owned
  std::vector<Reclaimable*> reclaimables_;
};

}  // namespace tandem
