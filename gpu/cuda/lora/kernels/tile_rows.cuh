// The rows of x and y of a block with tiles of eight rows: which it prefetches, and which columns
// each warp has.
#pragma once

#include "gpu/cuda/lora/kernels/stream.cuh"

namespace tandem::cuda {

// Prefetches rows' pieces into L2: of x, those that the block's warps will read; of y, those that
// they add to, unless y is too much to stay there, or there are so many tiles that the weights,
// which come first, would be delayed (256 rows, 4096 to 14336, rank 8: 43.4 us instead of 44.6).
template <typename T>
__device__ __forceinline__ void prefetch_rows(const LoraParams& p, const LoraTile& tile,
                                              const LoraOutput& out, LoraRange k, int column_begin,
                                              int column_end) {
  const int size = p.out_type == LoraType::f32 ? 4 : sizeof(T);
  const int row = static_cast<int>(threadIdx.x / 2);
  if (row >= tile.count) return;
  const std::int64_t at = row_of(p, tile.first + row);
  if (threadIdx.x % 2 == 0) {
    const int last = min(k.end * kUnit, p.in);
    const int first = k.begin * kUnit;
    if (first < last) {
      prefetch_l2(static_cast<const T*>(p.x) + at * p.x_stride + first,
                  static_cast<unsigned>((last - first) * static_cast<int>(sizeof(T))));
    }
  } else {
    const int last = min(column_end * kUnit, out.cols);
    const int first = column_begin * kUnit;
    const bool few = gridDim.y * gridDim.z < kManyTiles;
    if (few && first < last && tile.count * (last - first) <= kPrefetchColumns) {
      prefetch_l2(static_cast<const std::byte*>(out.data) + (at * out.stride + first) * size,
                  static_cast<unsigned>((last - first) * size));
    }
  }
}

// The tile that a block works on, and the block's place among those that share it.
struct LoraPlace {
  int tile;
  int log_blocks;   // blocks that share the tile's `in`
  int first_block;  // the first of these in the cluster
  int block;        // this block's index among these
  int log_parts;    // blocks that share the tile's columns
  int part;

  __device__ __forceinline__ explicit LoraPlace(const LoraCut& cut) {
    const int x = static_cast<int>(blockIdx.x);
    const int z = static_cast<int>(blockIdx.z);
    const bool in_pair = cut.paired >= 0 && z >= cut.paired;
    log_blocks = cut.log_cluster - (in_pair ? 1 : 0);
    const int upper = x >> log_blocks << log_blocks;
    tile = in_pair ? 2 * z - cut.paired + (upper > 0 ? 1 : 0) : z;
    first_block = in_pair ? upper : 0;
    block = x - upper;
    log_parts = log_blocks + (in_pair ? 0 : cut.log_splits);
    part = in_pair ? block : x;
  }
};

// A warp's columns, in units. Parts of several units begin at a cache line of y (expand.cuh).
__device__ __forceinline__ LoraRange warp_columns(int all, int log_parts, int part) {
  if (all >> log_parts < 4) return {all, log_parts, part};
  LoraRange lines((all + 1) / 2, log_parts, part);
  lines.begin *= 2;
  lines.end = min(lines.end * 2, all);
  return lines;
}

}  // namespace tandem::cuda
