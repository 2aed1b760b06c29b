// Finds the rows, adapter and matrix that a block works on, and the addresses of its weights.
#pragma once

#include "gpu/cuda/lora/kernels/params.h"

namespace tandem::cuda {

// Rows [first, first + count) of LoraParams::rows, all of adapter `slot`; count 0: no work.
struct LoraTile {
  std::int32_t slot = 0;
  std::int32_t first = 0;
  std::int32_t count = 0;
};

// Finds tile number `wanted` of the segments cut into pieces of `tile_rows`. Every warp searches by
// itself: a lane sums kPerLane neighbouring segments, one scan over the warp finds the lane.
template <int kPerLane>
__device__ __forceinline__ bool scan_segments(const LoraParams& p, int base, int tile_rows,
                                              int& before, int wanted, LoraTile& tile) {
  const int lane = threadIdx.x % 32;
  LoraRows segment[kPerLane];
  int tiles = 0;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int s = base + lane * kPerLane + i;
    segment[i] = s < p.num_segments ? p.segments[s] : LoraRows{0, 0, 0};
  }
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) tiles += (segment[i].count + tile_rows - 1) / tile_rows;
  int up_to = tiles;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0U, up_to, step);
    if (lane >= step) up_to += other;
  }
  up_to += before;
  const unsigned beyond = __ballot_sync(~0U, up_to > wanted);
  if (beyond == 0) {
    before = __shfl_sync(~0U, up_to, 31);
    return false;
  }
  const int owner = __ffs(static_cast<int>(beyond)) - 1;
  int piece = wanted - (up_to - tiles);  // counted from the owner's first tile
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int mine = (segment[i].count + tile_rows - 1) / tile_rows;
    if (piece >= 0 && piece < mine) {
      tile = {segment[i].slot, segment[i].first + piece * tile_rows,
              min(tile_rows, segment[i].count - piece * tile_rows)};
    }
    piece -= mine;
  }
  tile.slot = __shfl_sync(~0U, tile.slot, owner);
  tile.first = __shfl_sync(~0U, tile.first, owner);
  tile.count = __shfl_sync(~0U, tile.count, owner);
  return true;
}

__device__ __forceinline__ LoraTile find_tile(const LoraParams& p, int tile_rows, int wanted) {
  LoraTile tile;
  if (p.segments == nullptr) {
    const int slot = p.row_slots[wanted];
    return {slot, wanted, slot < 0 ? 0 : 1};
  }
  if (p.max_count <= tile_rows) {
    const LoraRows segment = p.segments[wanted];
    return {segment.slot, segment.first, segment.count};
  }
  int before = 0;
  if (p.num_segments <= 32) {
    scan_segments<1>(p, 0, tile_rows, before, wanted, tile);
    return tile;
  }
  for (int base = 0; base < p.num_segments; base += 256) {
    if (scan_segments<8>(p, base, tile_rows, before, wanted, tile)) break;
  }
  return tile;
}

// The maximum number of blocks that find_tile needs, whatever the segments contain.
inline std::int32_t tile_bound(const LoraParams& p, int tile_rows) {
  if (p.segments == nullptr) return p.num_rows;
  if (p.max_count <= tile_rows) return p.num_segments;
  const std::int64_t per_segment = (p.max_count + tile_rows - 1) / tile_rows;
  std::int64_t bound = per_segment * p.num_segments;
  bound = bound < p.num_rows ? bound : p.num_rows;
  const std::int64_t full = p.num_segments + std::int64_t{p.num_rows} / tile_rows;
  return static_cast<std::int32_t>(bound < full ? bound : full);
}

__device__ __forceinline__ std::int64_t row_of(const LoraParams& p, int position) {
  return p.rows != nullptr ? p.rows[position] : position;
}

__device__ __forceinline__ LoraEntry entry_of(const LoraParams& p, int slot, int module) {
  if (p.table != nullptr) return p.table[slot * p.slot_stride + module];
  const LoraDense& dense = p.dense[module];
  return {reinterpret_cast<std::uint64_t>(dense.a) +
              static_cast<std::uint64_t>(slot * dense.a_slot_bytes),
          reinterpret_cast<std::uint64_t>(dense.b) +
              static_cast<std::uint64_t>(slot * dense.b_slot_bytes),
          p.ranks != nullptr ? p.ranks[slot] : p.dense_rank, p.dense_rank};
}

}  // namespace tandem::cuda
