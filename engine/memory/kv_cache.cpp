#include "engine/memory/kv_cache.h"

#include <memory>

#include "base/check.h"

namespace tandem {

Result<KvCache> KvCache::create(Device& device, const PoolLayout& layout, std::int32_t num_pages) {
  TANDEM_CHECK(num_pages > 0, "{} pages", num_pages);
  KvCache cache;
  cache.layout_ = layout;
  const bool has_null_page = layout.groups.windowed > 0;
  const std::size_t pool_bytes = layout.page_bytes * static_cast<std::size_t>(num_pages);
  TANDEM_ASSIGN(cache.buffer_, device.allocate(pool_bytes + (has_null_page ? layout.page_bytes : 0),
                                               "the page pool (lower pool_gb or max_model_len)"));
  if (!has_null_page) return cache;
  TANDEM_ASSIGN(const std::unique_ptr<Stream> stream, device.create_stream("null page"));
  auto* const words = reinterpret_cast<std::uint32_t*>(cache.buffer_.data() + pool_bytes);
  stream->set_flag(words, 0, static_cast<std::int32_t>(layout.page_bytes / sizeof(*words)));
  TANDEM_TRY(stream->synchronize());
  return cache;
}

KvLayer KvCache::layer(std::int64_t index) const {
  KvLayer layer;
  layer.base = buffer_.data() + layout_.layers[static_cast<std::size_t>(index)].offset;
  layer.page_stride = static_cast<std::int64_t>(layout_.page_bytes / layout_.element_bytes);
  layer.page_tokens = layout_.page_tokens;
  return layer;
}

}  // namespace tandem
