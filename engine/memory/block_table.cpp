#include "engine/memory/block_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {

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

void BlockTable::share(std::span<const PageId> pages) {
  TANDEM_CHECK(pages_.empty(), "the table has {} pages already", pages_.size());
  pages_.assign(pages.begin(), pages.end());
  for (const PageId page : pages) pool_->reference(page);
}

bool BlockTable::reserve(std::int64_t tokens) {
  const auto wanted = static_cast<std::size_t>(pool_->shape().pages_for(tokens));
  if (wanted <= pages_.size()) return true;
  if (wanted > pages_.capacity()) pages_.reserve(std::max(wanted, 2 * pages_.capacity()));
  if (!pool_->make_room(static_cast<std::int64_t>(wanted - pages_.size()))) return false;
  while (pages_.size() < wanted) pages_.push_back(pool_->take_page());
  return true;
}

void BlockTable::replace(std::size_t index, PageId page) {
  pool_->reference(page);
  pool_->drop_reference(std::exchange(pages_[index], page));
}

void BlockTable::clear() {
  for (const PageId page : pages_) pool_->drop_reference(page);
  pages_.clear();
}

std::int32_t BlockTable::slot(std::int64_t position) const {
  const std::int32_t page_tokens = pool_->shape().page_tokens;
  const auto index = static_cast<std::size_t>(position / page_tokens);
  TANDEM_CHECK(index < pages_.size(), "token {} was not reserved", position);
  return pages_[index].value() * page_tokens + static_cast<std::int32_t>(position % page_tokens);
}

}  // namespace tandem
