// The device memory behind the page pool: K and V of every layer, page by page.
#pragma once

#include <cstdint>

#include "engine/base/status.h"
#include "engine/loader/model_config.h"
#include "gpu/device.h"

namespace tandem {

class KvCache {
 public:
  // [layers, num_pages, 2, kv_heads, page_tokens, head_dim] of `dtype`, allocated once.
  static Result<KvCache> create(Device& device, const ModelConfig& config, DType dtype,
                                std::int32_t num_pages, std::int32_t page_tokens);

  // Bytes that one page id takes over all layers.
  static std::size_t page_bytes(const ModelConfig& config, DType dtype, std::int32_t page_tokens);

  KvLayer layer(std::int64_t index) const;
  std::int32_t num_pages() const { return num_pages_; }
  std::int32_t page_tokens() const { return page_tokens_; }
  std::size_t bytes() const { return buffer_.bytes(); }

 private:
  Buffer buffer_;
  std::size_t layer_bytes_ = 0;
  std::int64_t page_stride_ = 0;
  std::int32_t num_pages_ = 0;
  std::int32_t page_tokens_ = 0;
};

}  // namespace tandem
