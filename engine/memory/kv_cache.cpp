#include "engine/memory/kv_cache.h"

#include "base/check.h"

namespace tandem {

Result<KvCache> KvCache::create(Device& device, const PoolLayout& layout, std::int32_t num_pages) {
  TANDEM_CHECK(num_pages > 0, "{} pages", num_pages);
  KvCache cache;
  cache.layout_ = layout;
  TANDEM_ASSIGN(cache.buffer_,
                device.allocate(layout.page_bytes * static_cast<std::size_t>(num_pages),
                                "the page pool (lower pool_gb or max_model_len)"));
  return cache;
}

KvLayer KvCache::layer(std::int64_t index) const {
  KvLayer layer;
  layer.base = buffer_.data() + static_cast<std::size_t>(index) * layout_.slab_bytes;
  layer.page_stride = static_cast<std::int64_t>(layout_.page_bytes / layout_.element_bytes);
  layer.page_tokens = layout_.page_tokens;
  return layer;
}

}  // namespace tandem
