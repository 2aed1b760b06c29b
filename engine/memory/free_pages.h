// Which pages are free: a bitmap. KV takes the lowest page, adapters take runs of adjacent pages
// from the top, so that the two meet late and adapters are copied in long pieces.
#pragma once

#include <cstdint>
#include <vector>

#include "base/strong_id.h"

namespace tandem {

// A page of the pool, the p-th from the start of its memory. The device's block tables hold it as a
// plain i32 (gpu/ops.h: AttentionArgs).
using PageId = StrongId<struct PageTag>;

class FreePages {
 public:
  explicit FreePages(std::int32_t num_pages);  // all free

  std::int32_t count() const { return count_; }
  bool contains(PageId page) const;

  void put(PageId page);  // requires that it is not free
  PageId take_lowest();   // requires count() > 0
  // `wanted` pages, adjacent and ascending if there is such a run, else runs from the top down.
  // Requires count() >= wanted.
  std::vector<PageId> take_runs(std::int32_t wanted);

 private:
  void take(PageId page);
  // The highest page <= `from` that is (or is not) free; -1: none. By number, as it is reckoned
  // with.
  std::int32_t highest(std::int32_t from, bool free) const;

  std::int32_t num_pages_;
  std::int32_t count_;
  std::vector<std::uint64_t> words_;  // bit set: free
  std::size_t lowest_word_ = 0;       // words below it are zero
};

}  // namespace tandem
