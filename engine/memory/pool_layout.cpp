#include "engine/memory/pool_layout.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tandem {
namespace {

// LoraPages asks for 4 KiB or more. Above 256 KiB copies gain no speed and tails grow.
constexpr std::size_t kSmallestChunk = 4096;
constexpr std::size_t kLargestChunk = std::size_t{256} << 10;

}  // namespace

PoolLayout PoolLayout::of(const ModelSpec& spec, DType dtype, std::int32_t page_tokens) {
  TANDEM_CHECK(page_tokens > 0 && spec.num_layers() > 0, "{} tokens a page", page_tokens);
  PoolLayout layout;
  layout.page_tokens = page_tokens;
  layout.element_bytes = size_of(dtype);
  std::int64_t kv_size = 0;  // of the largest layer
  for (const LayerSpec& layer : spec.layers) {
    kv_size = std::max(kv_size, layer.attention.kv_size());
  }
  layout.slab_bytes = static_cast<std::size_t>(2 * kv_size * page_tokens) * layout.element_bytes;
  const std::size_t chunk =
      std::clamp(std::bit_floor(layout.slab_bytes), kSmallestChunk, kLargestChunk);
  layout.chunk_shift = std::countr_zero(chunk);
  const std::size_t kv_bytes = layout.slab_bytes * static_cast<std::size_t>(spec.num_layers());
  layout.chunks_per_page = static_cast<std::int32_t>(layout.chunks_for(kv_bytes));
  layout.page_bytes = static_cast<std::size_t>(layout.chunks_per_page) << layout.chunk_shift;
  return layout;
}

}  // namespace tandem
