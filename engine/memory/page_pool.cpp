#include "engine/memory/page_pool.h"

#include <numeric>
#include <utility>

#include "engine/base/check.h"

namespace tandem {

PagePool::PagePool(std::int32_t num_pages, std::int32_t page_tokens)
    : page_tokens_(page_tokens),
      free_(static_cast<std::size_t>(num_pages)),
      owned_(static_cast<std::size_t>(num_pages), false) {
  TANDEM_CHECK(num_pages > 0 && page_tokens > 0, "{} pages of {} tokens", num_pages, page_tokens);
  // Highest id at the bottom, so that a fresh pool hands out 0, 1, 2, ...
  std::iota(free_.rbegin(), free_.rend(), 0);
}

PagePool::~PagePool() {
  TANDEM_CHECK(num_free() == num_pages(), "{} pages leaked", num_pages() - num_free());
}

PageId PagePool::take() {
  TANDEM_CHECK(!free_.empty(), "the page pool is empty");
  const PageId page = free_.back();
  free_.pop_back();
  owned_[static_cast<std::size_t>(page)] = true;
  return page;
}

void PagePool::give_back(PageId page) {
  TANDEM_CHECK(owned_[static_cast<std::size_t>(page)], "page {} given back twice", page);
  owned_[static_cast<std::size_t>(page)] = false;
  free_.push_back(page);
}

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_), pages_(std::exchange(other.pages_, {})) {}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this != &other) {
    clear();
    pool_ = other.pool_;
    pages_ = std::exchange(other.pages_, {});
  }
  return *this;
}

bool BlockTable::reserve(std::int64_t tokens) {
  const auto wanted = static_cast<std::size_t>(pool_->pages_for(tokens));
  if (wanted <= pages_.size()) return true;
  if (wanted - pages_.size() > static_cast<std::size_t>(pool_->num_free())) return false;
  while (pages_.size() < wanted) pages_.push_back(pool_->take());
  return true;
}

void BlockTable::clear() {
  // Last page first: the next taker gets them in order again.
  while (!pages_.empty()) {
    pool_->give_back(pages_.back());
    pages_.pop_back();
  }
}

std::int32_t BlockTable::slot(std::int64_t position) const {
  const std::int32_t page_tokens = pool_->page_tokens();
  const auto index = static_cast<std::size_t>(position / page_tokens);
  TANDEM_CHECK(index < pages_.size(), "token {} was not reserved", position);
  return pages_[index] * page_tokens + static_cast<std::int32_t>(position % page_tokens);
}

}  // namespace tandem
