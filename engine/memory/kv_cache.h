// The device memory behind the page pool: one allocation for pages of KV and chunks of adapters.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "engine/memory/pool_layout.h"
#include "gpu/device.h"

namespace tandem {

class KvCache {
 public:
  // Allocates [num_pages][layers][2][kv_heads][page_tokens][head_dim] once; see PoolLayout.
  static Result<KvCache> create(Device& device, const PoolLayout& layout, std::int32_t num_pages);

  KvLayer layer(std::int64_t index) const;
  // Chunk c of an adapter begins at chunk_base() + (c << layout().chunk_shift).
  std::byte* chunk_base() const { return buffer_.data(); }

  const PoolLayout& layout() const { return layout_; }
  std::int32_t page_tokens() const { return layout_.page_tokens; }
  std::size_t bytes() const { return buffer_.bytes(); }

 private:
  Buffer buffer_;
  PoolLayout layout_;
};

}  // namespace tandem
