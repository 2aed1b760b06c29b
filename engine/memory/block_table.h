// The pages of one sequence, in the order of its tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/memory/page_pool.h"

namespace tandem {

// Holds a reference to each of its pages and drops them when destroyed. Move-only. If there is no
// memory for the list of pages, share() and reserve() throw and change nothing.
class BlockTable {
 public:
  explicit BlockTable(PagePool& pool) : pool_(&pool) {}
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;
  ~BlockTable() { clear(); }

  // Starts the table with pages that another sequence has computed; nothing may write to them.
  // Requires an empty table.
  void share(std::span<const PageId> pages);
  // Makes room for `tokens` tokens in total, reclaiming pages if necessary. All or nothing: false
  // if there are too few pages.
  [[nodiscard]] bool reserve(std::int64_t tokens);
  // Replaces a page by another with the same content.
  void replace(std::size_t index, PageId page);
  void clear();

  std::span<const PageId> pages() const { return pages_; }
  // Returns the slot of token `position`, in tokens from the start of the pool: page * page_tokens
  // + offset. Requires that the position was reserved.
  std::int32_t slot(std::int64_t position) const;

 private:
  PagePool* pool_;
  std::vector<PageId> pages_;
};

}  // namespace tandem
