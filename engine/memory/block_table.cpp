#include "engine/memory/block_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

void make_capacity(std::vector<PageId>& table, std::size_t count) {
  if (count > table.capacity()) table.reserve(std::max(count, 2 * table.capacity()));
}

}  // namespace

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_),
      tables_(std::exchange(other.tables_, {})),
      given_back_(std::exchange(other.given_back_, 0)) {}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this != &other) {
    clear();
    pool_ = other.pool_;
    tables_ = std::exchange(other.tables_, {});
    given_back_ = std::exchange(other.given_back_, 0);
  }
  return *this;
}

void BlockTable::append(std::span<const PageId> of_groups) {
  TANDEM_CHECK(of_groups.size() == tables_.size(), "{} pages for {} groups", of_groups.size(),
               tables_.size());
  const std::size_t index = num_pages();
  for (std::vector<PageId>& table : tables_) make_capacity(table, index + 1);
  const PageId null_page = pool_->shape().null_page();
  for (std::size_t group = 0; group < tables_.size(); ++group) {
    tables_[group].push_back(of_groups[group]);
    if (of_groups[group] != null_page) pool_->reference(of_groups[group]);
  }
  if (of_groups.back() == null_page) given_back_ = index + 1;
}

bool BlockTable::reserve(std::int64_t tokens) {
  const auto wanted = static_cast<std::size_t>(pool_->shape().table_pages(tokens));
  if (wanted <= num_pages()) return true;
  for (std::vector<PageId>& table : tables_) make_capacity(table, wanted);
  if (!pool_->make_room(static_cast<std::int64_t>((wanted - num_pages()) * tables_.size()))) {
    return false;
  }
  for (std::vector<PageId>& table : tables_) {
    while (table.size() < wanted) table.push_back(pool_->take_page());
  }
  return true;
}

void BlockTable::replace(std::int32_t group, std::size_t index, PageId page) {
  pool_->reference(page);
  pool_->drop_reference(std::exchange(tables_[static_cast<std::size_t>(group)][index], page));
}

void BlockTable::give_back_before(std::size_t index) {
  const PoolShape& shape = pool_->shape();
  if (shape.groups.windowed == 0) return;
  for (; given_back_ < std::min(index, num_pages()); ++given_back_) {
    for (std::int32_t group = shape.groups.whole; group < shape.groups.count(); ++group) {
      PageId& page = tables_[static_cast<std::size_t>(group)][given_back_];
      pool_->drop_reference(std::exchange(page, shape.null_page()));
    }
  }
}

void BlockTable::clear() {
  const PageId null_page = pool_->shape().null_page();
  for (std::vector<PageId>& table : tables_) {
    for (const PageId page : table) {
      if (page != null_page) pool_->drop_reference(page);
    }
    table.clear();
  }
  given_back_ = 0;
}

std::int64_t BlockTable::num_held() const {
  const KvGroups& groups = pool_->shape().groups;
  return static_cast<std::int64_t>(num_pages()) * groups.count() -
         static_cast<std::int64_t>(given_back_) * groups.windowed;
}

}  // namespace tandem
