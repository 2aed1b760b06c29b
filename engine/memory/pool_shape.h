// The size of the page pool in pages, and how many pages sequences take.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/memory/free_pages.h"
#include "engine/memory/kv_groups.h"

namespace tandem {

struct PoolShape {
  std::int32_t num_pages = 0;
  std::int32_t page_tokens = 0;
  std::int32_t chunks_per_page = 1;
  KvGroups groups;

  // Stands in block tables for pages that were given back. It follows the pool's pages; KvCache has
  // its memory.
  PageId null_page() const { return PageId(num_pages); }
  // The length of each block table of a sequence.
  std::int32_t table_pages(std::int64_t tokens) const {
    return static_cast<std::int32_t>((tokens + page_tokens - 1) / page_tokens);
  }
  // The most pages that a sequence holds on the way to this length.
  std::int32_t pages_for(std::int64_t tokens) const {
    const std::int64_t all = table_pages(tokens);
    const std::int64_t seen = table_pages(groups.window + groups.step_rows) + 1;
    const std::int64_t pages = groups.whole * all + groups.windowed * std::min(all, seen);
    return static_cast<std::int32_t>(std::min<std::int64_t>(pages, INT32_MAX / 4));
  }
  // The longest sequence for which `pages` pages are enough.
  std::int64_t longest_with(std::int64_t pages) const;
  // The tokens in `pages` pages, of sequences that are not longer than the window.
  std::int64_t tokens_in(std::int64_t pages) const { return pages / groups.count() * page_tokens; }
};

}  // namespace tandem
