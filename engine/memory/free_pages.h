// The free pages, as a bitmap. KV takes the lowest page and adapters take runs of adjacent pages
// from the top, so that they collide late and adapters are copied in long pieces.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids/strong_id.h"

namespace tandem {

// A page of the pool, the p-th from the start of its memory. The device's block tables store it as
// a plain i32 (gpu/ops.h: AttentionArgs).
using PageId = StrongId<struct PageTag>;

class FreePages {
 public:
  explicit FreePages(std::int32_t num_pages);  // all pages are free

  std::int32_t count() const { return count_; }
  bool contains(PageId page) const;

  void put(PageId page);  // requires that the page is not free
  PageId take_lowest();   // requires count() > 0
  // Takes `wanted` pages: adjacent and ascending if there is such a run, else runs from the top
  // down. Requires count() >= wanted.
  std::vector<PageId> take_runs(std::int32_t wanted);

 private:
  void take(PageId page);
  // Returns the highest page <= `from` that is free (or is not free); -1 if there is none. Plain
  // integers, because callers do arithmetic with them.
  std::int32_t highest(std::int32_t from, bool free) const;

  std::int32_t num_pages_;
  std::int32_t count_;
  std::vector<std::uint64_t> words_;  // a set bit means free
  std::size_t lowest_word_ = 0;       // all words below it are zero
};

}  // namespace tandem
