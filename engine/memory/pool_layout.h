// The layout of the one device allocation behind the page pool.
//
//   pool  [page 0][page 1] ... ([null page])         the null page: with windowed layers only
//   page  [layer 0: K, V][layer 1: K, V] ... (pad)   KV of page_tokens tokens in a group's layers,
//   or
//         [chunk][chunk] ...                         chunks_per_page pieces of adapters
//
// A layer that reads the keys of another one has that one's place.
//
// Without windowed layers there is one group of all layers. With both kinds of layers, a group has
// as many layers as the rarer kind, so that few places in pages are empty: Gemma 3's 5 layers of 34
// that see the whole context are one group, and its 29 windowed ones six, with one empty place.
//
// A page belongs to KV or to adapters as a whole. An adapter's run of bytes is cut into chunks that
// may lie in any pages (LoraPages of gpu/ops.h finds a byte by chunk id).
//
// A page has 16 tokens: a sequence wastes half a page on average, 8 tokens, which is 10 % at
// alpaca's mean length of 77 and 1.6 % at sharegpt's 499 (32 tokens: 21 % and 3.2 %), and the
// prefix cache shares whole pages only. Smaller pages would make block tables and the attention
// kernels' gathers longer. A chunk has the size of one layer's KV of a page (rounded down to a
// power of two, 4 to 256 KiB): a page is then a whole number of chunks, and only an adapter's last
// chunk is partly empty. Sizes of adapters and their waste in bf16:
//
//                 page     chunk     rank 8 qkv          rank 8 all7    (rank 128: a 16th of it)
//   Llama-2-7B    8 MiB    256 KiB   12.6 MB, 0.0 %      40.0 MB, 0.3 %
//   Llama-3-8B    2 MiB     64 KiB    9.4 MB, 0.0 %      41.9 MB, 0.0 %
//   Qwen2.5-7B  896 KiB     32 KiB    6.9 MB, 0.0 %      40.4 MB, 0.0 %
//
// tests/engine/memory/pool_waste_test prints all ranks, and the waste in a pool after 2,000
// adapters have been loaded and evicted beside KV: <= 0.1 %, and copies of 1.0 to 4.9 MB for layers
// of 1.5 to 8.3 MB. A layer's piece is copied in runs of adjacent chunks: always within a page, and
// across pages if the pool found adjacent ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "engine/memory/kv_groups.h"
#include "engine/memory/pool_shape.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

struct PoolLayout {
  // The place of the keys and values that a layer reads.
  struct LayerPlace {
    std::int32_t group = 0;
    std::size_t offset = 0;  // in a page of the group, in bytes
  };

  static PoolLayout of(const ModelSpec& spec, DType dtype, std::int32_t page_tokens);

  std::int32_t page_tokens = 0;
  std::size_t element_bytes = 0;
  std::size_t slab_bytes = 0;  // of one layer in a page: [2, kv_heads, page_tokens, head_dim]
  std::size_t page_bytes = 0;  // chunks_per_page << chunk_shift
  std::int32_t chunk_shift = 0;
  std::int32_t chunks_per_page = 0;
  KvGroups groups;
  std::vector<LayerPlace> layers;  // [num_layers]

  // A pool of `num_pages` such pages for sequences with up to `step_rows` rows in a step.
  PoolShape pool(std::int32_t num_pages, std::int64_t step_rows) const {
    PoolShape shape{num_pages, page_tokens, chunks_per_page, groups};
    shape.groups.step_rows = step_rows;
    return shape;
  }
  std::size_t chunk_bytes() const { return std::size_t{1} << chunk_shift; }
  std::int64_t chunks_for(std::size_t bytes) const {
    return static_cast<std::int64_t>((bytes + chunk_bytes() - 1) >> chunk_shift);
  }
};

}  // namespace tandem
