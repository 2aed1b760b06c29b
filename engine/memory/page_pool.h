// The fixed pool of KV pages, and the block table of one sequence.
//
// Ids only: the memory that the ids stand for is KvCache's. Not thread-safe: the engine thread
// alone plans with it. It decides nothing: who gives way when pages run out is the scheduler's
// choice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

using PageId = std::int32_t;

class PagePool {
 public:
  PagePool(std::int32_t num_pages, std::int32_t page_tokens);
  ~PagePool();  // every page must have come back
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  std::int32_t num_pages() const { return static_cast<std::int32_t>(owned_.size()); }
  std::int32_t num_free() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t page_tokens() const { return page_tokens_; }
  std::int32_t pages_for(std::int64_t tokens) const {
    return static_cast<std::int32_t>((tokens + page_tokens_ - 1) / page_tokens_);
  }

 private:
  friend class BlockTable;
  PageId take();  // requires num_free() > 0
  void give_back(PageId page);

  std::int32_t page_tokens_;
  std::vector<PageId> free_;  // a stack: the page given back last is warm in the caches
  std::vector<bool> owned_;   // proves that no page is owned twice
};

// The pages of one sequence, in the order of its tokens. Returns them when destroyed. Move-only.
class BlockTable {
 public:
  explicit BlockTable(PagePool& pool) : pool_(&pool) {}
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;
  ~BlockTable() { clear(); }

  // Makes room for `tokens` tokens in all. All or nothing: false when the pool has too few pages.
  [[nodiscard]] bool reserve(std::int64_t tokens);
  void clear();

  std::span<const PageId> pages() const { return pages_; }
  // Where token `position` lives: page * page_tokens + offset. Requires that it was reserved.
  std::int32_t slot(std::int64_t position) const;

 private:
  PagePool* pool_;
  std::vector<PageId> pages_;
};

}  // namespace tandem
