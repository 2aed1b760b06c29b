#include "engine/memory/kv_cache.h"

#include "engine/base/check.h"

namespace tandem {

std::size_t KvCache::page_bytes(const ModelConfig& config, DType dtype, std::int32_t page_tokens) {
  return static_cast<std::size_t>(config.num_layers * 2 * config.kv_size() * page_tokens) *
         size_of(dtype);
}

Result<KvCache> KvCache::create(Device& device, const ModelConfig& config, DType dtype,
                                std::int32_t num_pages, std::int32_t page_tokens) {
  TANDEM_CHECK(num_pages > 0 && page_tokens > 0, "{} pages of {} tokens", num_pages, page_tokens);
  KvCache cache;
  cache.num_pages_ = num_pages;
  cache.page_tokens_ = page_tokens;
  cache.page_stride_ = 2 * config.kv_size() * page_tokens;
  cache.layer_bytes_ = static_cast<std::size_t>(cache.page_stride_ * num_pages) * size_of(dtype);
  TANDEM_ASSIGN(cache.buffer_,
                device.allocate(cache.layer_bytes_ * static_cast<std::size_t>(config.num_layers),
                                "the KV cache (lower kv_cache_gb or max_model_len)"));
  return cache;
}

KvLayer KvCache::layer(std::int64_t index) const {
  KvLayer layer;
  layer.base = buffer_.data() + static_cast<std::size_t>(index) * layer_bytes_;
  layer.page_stride = page_stride_;
  layer.page_tokens = page_tokens_;
  return layer;
}

}  // namespace tandem
