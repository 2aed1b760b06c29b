// The pages of one sequence: a table for each group of layers, in the order of its tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/memory/page_pool.h"

namespace tandem {

// Holds a reference to each of its pages and drops them when destroyed. Move-only; what was moved
// from can only be destroyed or assigned to. If there is no
// memory for the lists of pages, append() and reserve() throw and change nothing.
class BlockTable {
 public:
  explicit BlockTable(PagePool& pool)
      : pool_(&pool), tables_(static_cast<std::size_t>(pool.shape().groups.count())) {}
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;
  ~BlockTable() { clear(); }

  // Appends pages that another sequence has computed, one for each group; nothing may write to
  // them. Null pages stand for pages that are not held.
  void append(std::span<const PageId> of_groups);
  // Makes room for `tokens` tokens in total, reclaiming pages if necessary. All or nothing: false
  // if there are too few pages.
  [[nodiscard]] bool reserve(std::int64_t tokens);
  // Replaces a page by another with the same content.
  void replace(std::int32_t group, std::size_t index, PageId page);
  // Gives back the pages of windowed groups before `index`.
  void give_back_before(std::size_t index);
  void clear();

  std::int32_t num_groups() const { return pool_->shape().groups.count(); }
  // The length of each table.
  std::size_t num_pages() const { return tables_.front().size(); }
  std::span<const PageId> pages(std::int32_t group = 0) const {
    return tables_[static_cast<std::size_t>(group)];
  }
  std::int32_t page_tokens() const { return pool_->shape().page_tokens; }
  // The number of pages that it holds in all groups.
  std::int64_t num_held() const;
  // True if it holds its page in windowed groups, too.
  bool holds_all(std::size_t index) const { return index >= given_back_; }

 private:
  PagePool* pool_;
  std::vector<std::vector<PageId>> tables_;  // by group, of equal lengths
  std::size_t given_back_ = 0;  // windowed groups have null pages before this index, and no others
};

}  // namespace tandem
