// The device memory behind the page pool: one allocation for pages of KV and chunks of adapters.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "engine/memory/pool_layout.h"
#include "gpu/device.h"

namespace tandem {

class KvCache {
 public:
  // Allocates [num_pages][layers of a group][2][kv_heads][page_tokens][head_dim] once; see
  // PoolLayout. With windowed layers a null page of zeros follows, for rows to read where a page
  // was given back: such keys are masked, but an arbitrary value there could be a NaN.
  static Result<KvCache> create(Device& device, const PoolLayout& layout, std::int32_t num_pages);

  KvLayer layer(std::int64_t index) const;
  // The group of the layer's pages (KvGroups).
  std::int32_t group(std::int64_t index) const {
    return layout_.layers[static_cast<std::size_t>(index)].group;
  }
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
