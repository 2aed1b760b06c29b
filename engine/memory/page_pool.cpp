#include "engine/memory/page_pool.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {

PagePool::PagePool(const PoolShape& shape)
    : shape_(shape),
      free_(shape.num_pages),
      pages_(static_cast<std::size_t>(shape.num_pages)),
      chunk_owned_(static_cast<std::size_t>(shape.num_pages) *
                       static_cast<std::size_t>(shape.chunks_per_page),
                   false) {
  TANDEM_CHECK(shape.num_pages > 0 && shape.page_tokens > 0 && shape.chunks_per_page > 0,
               "{} pages of {} tokens or {} chunks", shape.num_pages, shape.page_tokens,
               shape.chunks_per_page);
  if (shape.chunks_per_page == 1) return;  // a page never belongs to an adapter in part
  for (std::int32_t page = 0; page < shape.num_pages; ++page) {
    pages_[PageId(page).index()].partial =
        partial_.extract(partial_.emplace(0, PageId(page)).first);
  }
}

PagePool::~PagePool() {
  TANDEM_CHECK(num_free() == shape_.num_pages, "{} pages leaked", shape_.num_pages - num_free());
  TANDEM_CHECK(reclaimables_.empty(), "{} reclaimables are still registered", reclaimables_.size());
}

PoolCounts PagePool::counts() const {
  PoolCounts counts;
  counts.free = num_free();
  counts.cached = idle_pages_;
  counts.adapter = adapter_pages_;
  counts.kv = shape_.num_pages - counts.free - counts.cached - counts.adapter;
  counts.chunks = chunks_;
  counts.spare_chunks = std::int64_t{adapter_pages_} * shape_.chunks_per_page - chunks_;
  return counts;
}

// Reclaiming.

void PagePool::add(Reclaimable& reclaimable) {
  reclaimables_.push_back(&reclaimable);
}

void PagePool::remove(Reclaimable& reclaimable) {
  const auto at = std::find(reclaimables_.begin(), reclaimables_.end(), &reclaimable);
  TANDEM_CHECK(at != reclaimables_.end(), "removing a reclaimable that is not registered");
  reclaimables_.erase(at);
}

std::int64_t PagePool::available_pages() const {
  std::int64_t pages = num_free();
  for (const Reclaimable* each : reclaimables_) pages += each->reclaimable_pages();
  return pages;
}

bool PagePool::reclaim_one() {
  Reclaimable* first = nullptr;
  Worth least;
  for (Reclaimable* each : reclaimables_) {
    const std::optional<Worth> worth = each->least();
    if (!worth || (first != nullptr && !(*worth < least))) continue;
    first = each;
    least = *worth;
  }
  if (first == nullptr) return false;
  clock_.went(least);
  first->reclaim_least();
  return true;
}

bool PagePool::make_room(std::int64_t count) {
  while (num_free() < count) {
    if (!reclaim_one()) return false;
  }
  return true;
}

// KV.

PagePool::Page& PagePool::kv_page(PageId page) {
  Page& entry = pages_[page.index()];
  TANDEM_CHECK(entry.references > 0, "page {} holds no KV", page.value());
  return entry;
}

PageId PagePool::take_page() {
  const PageId page = free_.take_lowest();
  Page& entry = pages_[page.index()];
  TANDEM_CHECK(entry.references == 0 && entry.chunks == 0 && !entry.cached, "page {}",
               page.value());
  entry.references = 1;
  return page;
}

void PagePool::reference(PageId page) {
  Page& entry = kv_page(page);
  if (entry.cached && entry.references == 1) --idle_pages_;
  ++entry.references;
}

void PagePool::drop_reference(PageId page) {
  Page& entry = kv_page(page);
  TANDEM_CHECK(!entry.cached || entry.references > 1, "page {}: the cache's own reference",
               page.value());
  --entry.references;
  if (entry.references == 0) {
    entry.released = clock_.steps();
    free_.put(page);
  } else if (entry.cached && entry.references == 1) {
    ++idle_pages_;
  }
}

void PagePool::set_cached(PageId page) {
  Page& entry = kv_page(page);
  TANDEM_CHECK(!entry.cached, "page {} is cached twice", page.value());
  entry.cached = true;
  ++entry.references;
}

void PagePool::drop_cached(PageId page) {
  Page& entry = kv_page(page);
  TANDEM_CHECK(entry.cached, "page {} is not cached", page.value());
  if (entry.references == 1) --idle_pages_;
  entry.cached = false;
  drop_reference(page);
}

// Chunks.

std::optional<ChunkTable> PagePool::take_chunks(std::int64_t count) {
  TANDEM_CHECK(count >= 0, "{} chunks", count);
  if (count > std::int64_t{shape_.num_pages} * shape_.chunks_per_page) return std::nullopt;
  const auto room = [&] {
    return (std::int64_t{num_free()} + adapter_pages_) * shape_.chunks_per_page - chunks_;
  };
  while (room() < count) {
    if (!reclaim_one()) return std::nullopt;
  }
  ChunkTable table(*this, {});
  std::vector<ChunkId>& ids = table.ids_;
  ids.reserve(static_cast<std::size_t>(count));
  const auto whole = std::min<std::int64_t>(count / shape_.chunks_per_page, num_free());
  for (const PageId page : free_.take_runs(static_cast<std::int32_t>(whole))) {
    take_from_page(page, shape_.chunks_per_page, ids);
  }
  take_tail(count - static_cast<std::int64_t>(ids.size()), ids);
  return table;
}

// Takes chunks from the fullest page that has room for all of them, else from a new page, else from
// several pages.
void PagePool::take_tail(std::int64_t count, std::vector<ChunkId>& ids) {
  while (count > 0) {
    PageId page;
    auto taken = static_cast<std::int32_t>(std::min<std::int64_t>(count, shape_.chunks_per_page));
    const auto fitting = partial_.lower_bound({taken, PageId()});
    if (fitting != partial_.end()) {
      page = fitting->second;
    } else if (num_free() > 0) {
      page = free_.take_runs(1).front();
    } else {
      const auto roomiest = std::prev(partial_.end());
      page = roomiest->second;
      taken = roomiest->first;
    }
    take_from_page(page, taken, ids);
    count -= taken;
  }
}

void PagePool::take_from_page(PageId page, std::int32_t count, std::vector<ChunkId>& ids) {
  Page& entry = pages_[page.index()];
  TANDEM_CHECK(entry.references == 0 && entry.chunks + count <= shape_.chunks_per_page, "page {}",
               page.value());
  const std::int32_t before = entry.chunks;
  entry.chunks += count;
  chunks_ += count;
  if (before == 0) ++adapter_pages_;
  note_partial(page, before);
  for (std::int32_t next = page.value() * shape_.chunks_per_page; count > 0; ++next) {
    const ChunkId id(next);
    if (chunk_owned_[id.index()]) continue;
    chunk_owned_[id.index()] = true;
    ids.push_back(id);
    --count;
  }
}

void PagePool::give_back(ChunkId chunk) {
  TANDEM_CHECK(chunk_owned_[chunk.index()], "chunk {} given back twice", chunk.value());
  chunk_owned_[chunk.index()] = false;
  const PageId page = page_of(chunk);
  Page& entry = pages_[page.index()];
  entry.released = clock_.steps();
  const std::int32_t before = entry.chunks--;
  --chunks_;
  note_partial(page, before);
  if (entry.chunks > 0) return;
  --adapter_pages_;
  free_.put(page);
}

std::uint64_t PagePool::last_release(std::span<const ChunkId> chunks) const {
  std::uint64_t last = 0;
  for (const ChunkId chunk : chunks) {
    last = std::max(last, pages_[page_of(chunk).index()].released);
  }
  return last;
}

void PagePool::note_partial(PageId page, std::int32_t chunks_before) {
  const auto has_room = [&](std::int32_t chunks) {
    return chunks > 0 && chunks < shape_.chunks_per_page;
  };
  Page& entry = pages_[page.index()];
  const std::int32_t chunks = entry.chunks;
  if (has_room(chunks_before)) {
    entry.partial = partial_.extract({shape_.chunks_per_page - chunks_before, page});
  }
  if (has_room(chunks)) {
    entry.partial.value() = {shape_.chunks_per_page - chunks, page};
    partial_.insert(std::move(entry.partial));
  }
}

}  // namespace tandem
