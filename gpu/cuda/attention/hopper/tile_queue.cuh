// Assigns tiles to blocks of FlashInfer's kernel, through the interface of its schedulers.
// FlashInfer's own read seven arrays of tiles x heads, made by a planner of its own.
//
// Tiles are sorted by keys, most first. Pairs of a tile and a head are dealt to the blocks back and
// forth, so that a block with more work in one round has less in the next.
#pragma once

#include <cutlass/fast_math.h>
#include <cute/tensor.hpp>

#include "gpu/cuda/attention/hopper/hopper_prefill.h"
#include "gpu/cuda/base/launch_order.cuh"

namespace tandem::cuda {

class TileQueue {
 public:
  struct Params {
    const PromptTile* tiles;
    int count;  // tiles x heads
    cutlass::FastDivmod heads;
    cutlass::FastDivmod group;  // query heads over KV heads
  };

  struct WorkTileInfo {
    int round = 0;
    int head = 0;
    int kv_head = 0;
    PromptTile tile{};
    bool valid = false;

    __device__ bool is_valid(const Params&) const { return valid; }
    // Tile, query head, KV head, first row, first page id, rows, keys, sequence index (unused).
    __device__ auto get_block_coord(const Params&) const {
      return cute::tuple{tile.tile,  head,          kv_head,     tile.first_row,
                         tile.pages, tile.num_rows, tile.kv_len, 0};
    }
  };

  // The first call of every thread that computes or copies. The kernel is launched with overlap;
  // tiles, unlike q and the newest keys, were there before the step's first kernel.
  __device__ WorkTileInfo get_initial_work(const Params& params) const {
    const WorkTileInfo work = take(params, 0);
    wait_for_previous_kernels();
    return work;
  }
  template <bool kProducer = false>
  __device__ WorkTileInfo get_next_work(const Params& params, const WorkTileInfo& current) const {
    return take(params, current.round + 1);
  }
  // Only a queue shared by blocks would need these.
  __device__ void init_consumer() const {}
  __device__ void prefetch_next_work(const Params&, WorkTileInfo&) const {}
  __device__ void broadcast_next_work(WorkTileInfo&) const {}

 private:
  __device__ static WorkTileInfo take(const Params& params, int round) {
    const auto blocks = static_cast<int>(gridDim.x);
    const auto block = static_cast<int>(blockIdx.x);
    const int place = round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
    WorkTileInfo work;
    work.round = round;
    if (place >= params.count) return work;  // later rounds have nothing for this block either
    int tile = 0;
    params.heads(tile, work.head, place);
    work.kv_head = params.group.divide(work.head);
    work.tile = params.tiles[tile];
    work.valid = true;
    return work;
  }
};

}  // namespace tandem::cuda
