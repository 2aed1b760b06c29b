#include "engine/memory/pool_layout.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tandem {
namespace {

// LoraPages asks for 4 KiB or more. Above 256 KiB copies gain no speed and tails grow.
constexpr std::size_t kSmallestChunk = 4096;
constexpr std::size_t kLargestChunk = std::size_t{256} << 10;

// A window as long as the longest context hides nothing.
bool is_windowed(const ModelSpec& spec, const LayerSpec& layer) {
  return layer.attention.window > 0 && layer.attention.window < spec.max_position_embeddings;
}

// Fills in groups and places, and returns the number of layers in a group.
std::int64_t place_layers(const ModelSpec& spec, PoolLayout& layout) {
  std::int64_t whole = 0;
  std::int64_t windowed = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (!layer.attention.has_keys()) continue;
    const bool has_window = is_windowed(spec, layer);
    (has_window ? windowed : whole) += 1;
    if (!has_window) continue;
    layout.groups.window = std::max(layout.groups.window, layer.attention.window);
  }
  const std::int64_t each =
      whole == 0 || windowed == 0 ? whole + windowed : std::min(whole, windowed);
  const auto groups_of = [&](std::int64_t layers) {
    return static_cast<std::int32_t>((layers + each - 1) / each);
  };
  layout.groups.whole = groups_of(whole);
  layout.groups.windowed = groups_of(windowed);
  std::int64_t placed_whole = 0;
  std::int64_t placed_windowed = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (!layer.attention.has_keys()) {
      layout.layers.push_back(layout.layers[layer.attention.keys_of]);
      continue;
    }
    const bool has_window = is_windowed(spec, layer);
    const std::int64_t place = has_window ? placed_windowed++ : placed_whole++;
    const auto group = static_cast<std::int32_t>(place / each);
    layout.layers.push_back({has_window ? layout.groups.whole + group : group,
                             static_cast<std::size_t>(place % each) * layout.slab_bytes});
  }
  return each;
}

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
  const auto kv_bytes = layout.slab_bytes * static_cast<std::size_t>(place_layers(spec, layout));
  layout.chunks_per_page = static_cast<std::int32_t>(layout.chunks_for(kv_bytes));
  layout.page_bytes = static_cast<std::size_t>(layout.chunks_per_page) << layout.chunk_shift;
  return layout;
}

}  // namespace tandem
