// The three kernels of attention and their operands. Framework-free launchers: they enqueue, and
// never allocate or synchronise.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// AttentionArgs in the kernels' form: element strides of [T, heads, d] views.
struct AttentionOperands {
  const void* q = nullptr;
  std::int64_t q_row = 0;
  std::int64_t q_head = 0;
  void* out = nullptr;
  std::int64_t out_row = 0;
  std::int64_t out_head = 0;
  std::int32_t group = 0;  // query heads over KV heads
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  float scale = 0;
  std::int32_t window = 0;
  float softcap = 0;
  const float* sinks = nullptr;  // [heads]; null: none
  KvLayer cache;
  const AttentionSequence* sequences = nullptr;
  const std::int32_t* page_ids = nullptr;
};
AttentionOperands operands_of(const AttentionArgs& args);

// ---- tiled: tensor cores, 16 packed rows a block, keys split over blocks -----------------------

// Query rows of one sequence are packed with the query heads that share a KV head: packed row p is
// row p / group, head p % group of the group. One tile is up to 16 packed rows; one item is a tile
// and a span of its keys, and one block serves one item and one KV head.
struct alignas(16) TileItem {
  static constexpr int kRows = 16;
  std::int32_t first_row;  // the sequence's first row in q and out
  std::int32_t num_rows;   // as AttentionSequence
  std::int32_t kv_len;     // as AttentionSequence
  std::int32_t pages;      // as AttentionSequence
  std::int32_t packed;     // the tile's first packed row
  std::int32_t count;      // its packed rows, 1 .. 16
  std::int32_t begin_key;  // the item's span
  std::int32_t end_key;
  std::int32_t tile;        // which tile: index of its arrival counters
  std::int32_t first_item;  // the tile's items are first_item .. first_item + num_items
  std::int32_t num_items;   // 1: the block writes `out` itself; 0: an empty item
  std::int32_t settled;     // as AttentionSequence
};
static_assert(sizeof(TileItem) == 48);

// The maximum number of items per tile: the merging block keeps their weights in shared memory.
constexpr std::int32_t kMaxItemsPerTile = 128;
// If a cluster has all of a tile's items, its blocks merge them through their shared memory. Every
// GPU with clusters can place this many blocks.
constexpr std::int32_t kMaxTileCluster = 8;

struct TiledArgs {
  AttentionOperands attention;
  DType dtype = DType::bf16;
  const std::int32_t* num_items = nullptr;  // device; blocks beyond exit at once
  const TileItem* items = nullptr;          // device
  std::int32_t grid_items = 0;              // blocks launched per KV head; whole clusters
  std::int32_t log_cluster = 0;             // clusters have 2^log_cluster consecutive blocks
  float* partial = nullptr;          // [items, kv_heads, 16 (d + 2)]: parts, as tiled_merge.cuh
  std::uint32_t* arrived = nullptr;  // [tiles, kv_heads], zero before and after
};

// f16 or bf16; d of 64, 96, 128, 256, 512; 16-byte aligned keys, 4-byte aligned rows of q and out.
bool tiled_supports(DType dtype, std::int64_t head_dim);
Status launch_tiled_attention(const TiledArgs& args, cudaStream_t stream);
// Called once before the first launch, for kernels that need more shared memory than the default.
Status prepare_tiled_attention();

// ---- prefill: FlashInfer's FlashAttention-2 kernel, 128 (d 256: 64) packed rows a block --------

// Device arrays in FlashInfer's terms. Even requests (2 i) are sequences, odd ones the gaps between
// them, so that the rows and page ids of the sequences may lie anywhere.
struct PrefillArgs {
  AttentionArgs attention;
  std::int32_t num_tiles = 0;
  std::int32_t num_requests = 0;
  std::int32_t* request_of_tile = nullptr;   // [num_tiles]
  std::int32_t* tile_in_request = nullptr;   // [num_tiles]
  std::int32_t* zeros = nullptr;             // [num_tiles]: no tile is split
  std::int32_t* row_begin = nullptr;         // [num_requests + 1]
  std::int32_t* page_begin = nullptr;        // [num_requests + 1]
  std::int32_t* last_page_tokens = nullptr;  // [num_requests]
};

// Packed rows per block, 0: not supported.
std::int32_t prefill_tile_rows(DType dtype, std::int64_t head_dim);
// Requires dense `out`, and 16-byte aligned keys and rows of q.
Status launch_prefill_attention(const PrefillArgs& args, cudaStream_t stream);

// ---- simple: any dtype, d up to 512, any stride -----------------------------------------------

constexpr std::int64_t kMaxSimpleHeadDim = 512;
Status launch_simple_attention(const AttentionArgs& args, cudaStream_t stream);

}  // namespace tandem::cuda
