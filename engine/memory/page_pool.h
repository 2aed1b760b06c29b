// The fixed pool of pages that KV and adapters share (S-LoRA's Unified Paging).
//
// A page is free, or holds KV (referenced by any number of block tables, and perhaps kept by the
// prefix cache), or holds chunks of adapters. The pool handles ids only: KvCache owns the memory.
//
// If pages run out, the pool reclaims those of the lowest worth from all of its reclaimables until
// the request fits: adapters and the KV that they computed are compared on one scale. It makes no
// other decision: the scheduler chooses which running sequence is preempted.
//
// Returning pages never allocates. Not thread-safe: the engine thread alone uses the pool, and
// pages are returned on that thread. A page may be returned and taken again while a step that uses
// it is still running, because work enqueued later on the compute stream runs after that step.
// Another stream that writes (adapter loads) must wait for the last step that was enqueued before
// the pages were taken.
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
#include "engine/memory/pool_shape.h"
#include "engine/memory/reclaimable.h"

namespace tandem {

// Every page is counted in one of the first four members.
struct PoolCounts {
  std::int32_t free = 0;
  std::int32_t kv = 0;      // referenced by a block table
  std::int32_t cached = 0;  // held by the prefix cache alone
  std::int32_t adapter = 0;
  std::int64_t chunks = 0;        // held by adapters
  std::int64_t spare_chunks = 0;  // free, but in pages of adapters, so unusable for KV
};

// The cost of restoring something that was reclaimed, in seconds. Zero: unknown, and only age
// counts.
struct ReclaimCosts {
  double kv_page = 0;       // to recompute the tokens of a page
  double adapter_byte = 0;  // to copy a byte to the device
};

// Logical time, in steps and in uses, and the worth that follows from uses.
class PoolClock {
 public:
  // steps() counts the steps enqueued so far: those may read a page that is returned now. The
  // caller that enqueues steps calls step_enqueued(). For streams that are not ordered after the
  // compute stream (adapter loads).
  void step_enqueued() { ++steps_; }
  std::uint64_t steps() const { return steps_; }
  // Returns a time stamp for a use, later than all stamps before; comparable across all
  // reclaimables.
  std::uint64_t stamp() { return ++uses_; }

  // Returns the worth of an item that is used now, for the `uses`-th time, and would take
  // `seconds_per_page` to restore: GreedyDual-Size with Frequency (Cherkasova, 1998). The worth of
  // the last reclaimed item is added, so that items that are no longer used lose rank, however
  // often they were used before.
  Worth worth(std::uint64_t uses, double seconds_per_page) {
    const auto counted = static_cast<double>(std::min(uses, kMostUses));
    return {went_last_ + counted * seconds_per_page, stamp()};
  }
  void went(const Worth& worth) { went_last_ = std::max(went_last_, worth.seconds); }
  // The cap on the number of uses that count. With a higher one, formerly popular items would stay
  // for long after the popularity has changed.
  static constexpr std::uint64_t kMostUses = 16;

 private:
  std::uint64_t steps_ = 0;
  std::uint64_t uses_ = 0;
  double went_last_ = 0;  // Worth::seconds of the last reclaimed item
};

class PagePool {
 public:
  explicit PagePool(const PoolShape& shape);
  PagePool(std::int32_t num_pages, std::int32_t page_tokens, std::int32_t chunks_per_page = 1)
      : PagePool(PoolShape{num_pages, page_tokens, chunks_per_page, {}}) {}
  ~PagePool();  // every page must have been returned
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  const PoolShape& shape() const { return shape_; }
  PoolClock& clock() { return clock_; }
  // Sets the costs for uses from now on; finite, not negative.
  void set_costs(const ReclaimCosts& costs) { costs_ = costs; }
  const ReclaimCosts& costs() const { return costs_; }
  std::int32_t num_free() const { return free_.count(); }
  PoolCounts counts() const;

  // Takes `count` chunks for an adapter, whole pages first and adjacent where possible. All or
  // nothing, also if there is no memory for the list of chunks (it throws).
  std::optional<ChunkTable> take_chunks(std::int64_t count);

  // Returns PoolClock::steps() at the time of the last return of any of these chunks' pages, by KV
  // or by adapters.
  std::uint64_t last_release(std::span<const ChunkId> chunks) const;

  // A reclaimable is registered until removed; it and the pool must outlive the registration.
  void add(Reclaimable& reclaimable);
  void remove(Reclaimable& reclaimable);
  // Returns the free pages plus those that the reclaimables would return: about the number that can
  // be had.
  std::int64_t available_pages() const;
  // Reclaims until `count` pages are free; false if there are not so many.
  [[nodiscard]] bool make_room(std::int64_t count);

  // For KV: used by BlockTable and the prefix cache. A page becomes free when its last reference is
  // dropped.
  PageId take_page();           // with one reference; requires num_free() > 0
  void reference(PageId page);  // adds one; requires that the page holds KV
  void drop_reference(PageId page);
  void set_cached(PageId page);  // adds a reference, held by the prefix cache
  void drop_cached(PageId page);

 private:
  friend class ChunkTable;
  using Partial = std::set<std::pair<std::int32_t, PageId>>;
  struct Page {
    std::int32_t references = 0;  // including the prefix cache's
    std::int32_t chunks = 0;      // number owned by adapters
    bool cached = false;
    std::uint64_t released = 0;  // PoolClock::steps() when a chunk of it, or all, was returned
    Partial::node_type partial;  // the page's node for partial_, kept here while it is not in there
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
  // Adapter pages with room, ordered by their number of free chunks.
  Partial partial_;
  std::int32_t idle_pages_ = 0;  // cached pages without another reference
  std::int32_t adapter_pages_ = 0;
  std::int64_t chunks_ = 0;  // chunks owned by adapters
  std::vector<Reclaimable*> reclaimables_;
};

}  // namespace tandem
