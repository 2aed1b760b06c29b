// The pages of one sequence, in the order of its tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/memory/page_pool.h"

namespace tandem {

// Holds a reference to each of its pages; drops them when destroyed. Move-only. Where there is no
// memory for their list share() and reserve() throw, and nothing has changed.
class BlockTable {
 public:
  explicit BlockTable(PagePool& pool) : pool_(&pool) {}
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;
  ~BlockTable() { clear(); }

  // Begins with pages that somebody else has computed; nothing may write to them. Requires an
  // empty table.
  void share(std::span<const PageId> pages);
  // Makes room for `tokens` tokens in all, by reclaiming if need be. All or nothing: false when
  // there are too few pages.
  [[nodiscard]] bool reserve(std::int64_t tokens);
  // Puts a page of the same content in the place of one.
  void replace(std::size_t index, PageId page);
  void clear();

  std::span<const PageId> pages() const { return pages_; }
  // Where token `position` lives, in tokens from the start of the pool: page * page_tokens +
  // offset. Requires that it was reserved.
  std::int32_t slot(std::int64_t position) const;

 private:
  PagePool* pool_;
  std::vector<PageId> pages_;
};

}  // namespace tandem
