// Merges the parts of a tile into its result: first those of a block's teams, then those of several
// blocks, through the shared memory of their cluster or through L2. A part is out [rows, d] over
// its own keys, not yet divided by the sum, and each row's maximum and sum [rows, 2]; exponents are
// to base 2.
#pragma once

#include <cmath>

#include "gpu/cuda/attention/kernels.h"
#include "gpu/cuda/attention/mma.cuh"
#include "gpu/cuda/attention/tiled_shape.cuh"
#include "gpu/cuda/base/cluster.cuh"

namespace tandem::cuda {

// The layout of a block's parts in shared memory, where the stages were.
template <int kD>
struct TiledParts {
  using Shape = TiledShape<kD>;
  float* out;    // [teams, rows, stride]
  float* max;    // [teams, rows]
  float* sum;    // [teams, rows]
  float* mixed;  // the block's part, where a cluster merges

  __device__ explicit TiledParts(char* shared)
      : out(reinterpret_cast<float*>(shared)),
        max(out + Shape::kTeams * Shape::kRows * Shape::kResultStride),
        sum(max + Shape::kTeams * Shape::kRows),
        mixed(sum + Shape::kTeams * Shape::kRows) {}
};

// Returns where row r of the tile goes.
template <typename T>
__device__ __forceinline__ T* row_of(const AttentionOperands& args, const TileItem& item,
                                     int kv_head, int r) {
  const int packed = item.packed + r;
  const int row = packed / args.group;
  return static_cast<T*>(args.out) + (item.first_row + row) * args.out_row +
         (kv_head * args.group + packed - row * args.group) * args.out_head;
}

template <typename T>
__device__ __forceinline__ void store_columns(T* to, const float (&values)[4], float factor) {
  auto* const pairs = reinterpret_cast<std::uint32_t*>(to);
  pairs[0] = pack2<T>(values[0] * factor, values[1] * factor);
  pairs[1] = pack2<T>(values[2] * factor, values[3] * factor);
}

__device__ __forceinline__ void add_columns(float (&sum)[4], float factor, const float4& part) {
  sum[0] += factor * part.x;
  sum[1] += factor * part.y;
  sum[2] += factor * part.z;
  sum[3] += factor * part.w;
}

// The factor of row r of the tile, once merged: 1 over the sum of its exponents, the sink's
// included. `sum` is the sum of exp2(score - highest) over its keys; 0: it sees none, and the
// factor is 0.
__device__ __forceinline__ float share_of(const AttentionOperands& args, const TileItem& item,
                                          int kv_head, int r, float highest, float sum) {
  constexpr float kLog2E = 1.4426950408889634F;
  if (sum == 0) return 0;
  if (args.sinks != nullptr) {
    const int head = kv_head * args.group + (item.packed + r) % args.group;
    sum += exp2f(args.sinks[head] * kLog2E - highest);
  }
  return 1.0F / sum;
}

// Merges the teams' parts, which are in shared memory: into the tile's rows if there are no other
// parts (`to` is null), otherwise into the part `to`.
template <typename T, int kD>
__device__ __forceinline__ void mix_teams(const TiledArgs& args, const TileItem& item, int kv_head,
                                          const TiledParts<kD>& parts, float* to) {
  using Shape = TiledShape<kD>;
  constexpr int kRows = Shape::kRows;
  constexpr int kBatch = 4;  // results in flight per thread
  const int num_columns = item.count * kD / 4;
  for (int begin = static_cast<int>(threadIdx.x); begin < num_columns;
       begin += kBatch * Shape::kThreads) {
    float mixed[kBatch][4] = {};
    float highest[kBatch];
    float total[kBatch] = {};
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = begin + b * Shape::kThreads;
      highest[b] = -INFINITY;
      if (i >= num_columns) continue;
      const int r = i / (kD / 4);
      const int column = i % (kD / 4) * 4;
#pragma unroll
      for (int w = 0; w < Shape::kTeams; ++w) {
        highest[b] = fmaxf(highest[b], parts.max[w * kRows + r]);
      }
#pragma unroll
      for (int w = 0; w < Shape::kTeams; ++w) {
        const int row = w * kRows + r;
        const float each = parts.max[row];
        const float factor = each == -INFINITY ? 0.0F : exp2f(each - highest[b]);
        total[b] += factor * parts.sum[row];
        add_columns(
            mixed[b], factor,
            *reinterpret_cast<const float4*>(parts.out + row * Shape::kResultStride + column));
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = begin + b * Shape::kThreads;
      if (i >= num_columns) continue;
      const int r = i / (kD / 4);
      const int column = i % (kD / 4) * 4;
      if (to == nullptr) {
        store_columns(row_of<T>(args.attention, item, kv_head, r) + column, mixed[b],
                      share_of(args.attention, item, kv_head, r, highest[b], total[b]));
        continue;
      }
      *reinterpret_cast<float4*>(to + 4 * i) =
          make_float4(mixed[b][0], mixed[b][1], mixed[b][2], mixed[b][3]);
      if (column == 0) {
        *reinterpret_cast<float2*>(to + kRows * kD + 2 * r) = make_float2(highest[b], total[b]);
      }
    }
  }
}

// Merges the parts of a tile's items in L2, always in the same order, in the block that arrived
// last. Keeping the loads in flight together is decisive: up to 16 items take one round trip.
template <typename T, int kD>
__device__ void merge_items(const TiledArgs& args, const TileItem& item, int kv_head,
                            float* shared) {
  constexpr int kThreads = TiledShape<kD>::kThreads;
  constexpr int kRows = TileItem::kRows;
  constexpr int kBatch = 16;
  const std::int64_t heads = args.attention.kv_heads;
  const float* partial = args.partial + (item.first_item * heads + kv_head) * TiledShape<kD>::kPart;
  const std::int64_t step = heads * TiledShape<kD>::kPart;
  const int thread = static_cast<int>(threadIdx.x);
  float* max = shared;                             // [items, rows]
  float* sum = shared + kMaxItemsPerTile * kRows;  // [items, rows]

  float4 part[kBatch];  // for row and columns number i, items from `begin` on
  const int num_columns = item.count * kD / 4;
  const auto load = [&](int i, int begin) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      part[j] = make_float4(0, 0, 0, 0);
      if (begin + j >= item.num_items) continue;
      part[j] = __ldcg(reinterpret_cast<const float4*>(partial + (begin + j) * step + i * 4));
    }
  };
  if (thread < num_columns) load(thread, 0);
  for (int i = thread; i < item.num_items * kRows; i += kThreads) {
    if (i % kRows >= item.count) continue;
    const float2 max_sum = __ldcg(
        reinterpret_cast<const float2*>(partial + i / kRows * step + kRows * kD + i % kRows * 2));
    max[i] = max_sum.x;
    sum[i] = max_sum.y;
  }
  __syncthreads();
  for (int i = thread; i < num_columns; i += kThreads) {
    if (i != thread) load(i, 0);
    const int r = i / (kD / 4);
    float highest = -INFINITY;
#pragma unroll 8
    for (int each = 0; each < item.num_items; ++each) {
      highest = fmaxf(highest, max[each * kRows + r]);
    }
    float total = 0;
    float mixed[4] = {};
    for (int begin = 0; begin < item.num_items; begin += kBatch) {
      if (begin > 0) load(i, begin);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (begin + j >= item.num_items) continue;
        const float each = max[(begin + j) * kRows + r];
        const float factor = each == -INFINITY ? 0.0F : exp2f(each - highest);
        total += factor * sum[(begin + j) * kRows + r];
        add_columns(mixed, factor, part[j]);
      }
    }
    store_columns(row_of<T>(args.attention, item, kv_head, r) + i % (kD / 4) * 4, mixed,
                  share_of(args.attention, item, kv_head, r, highest, total));
  }
}

// Merges where the items' blocks form one cluster: each block has its own part at `part` in shared
// memory and merges some of the columns.
template <typename T, int kD>
__device__ void merge_in_cluster(const TiledArgs& args, const TileItem& item, int index,
                                 int kv_head, const float* part) {
  constexpr int kThreads = TiledShape<kD>::kThreads;
  constexpr int kRows = TileItem::kRows;
  const int first_block = item.first_item & ((1 << args.log_cluster) - 1);
  const int first = (index - item.first_item) * kThreads + static_cast<int>(threadIdx.x);
  for (int i = first; i < item.count * kD / 4; i += item.num_items * kThreads) {
    const int r = i / (kD / 4);
    float4 parts[kMaxTileCluster];
    float2 max_sum[kMaxTileCluster];
#pragma unroll
    for (int j = 0; j < kMaxTileCluster; ++j) {  // all reads first, so that latencies overlap
      parts[j] = make_float4(0, 0, 0, 0);
      max_sum[j] = make_float2(-INFINITY, 0);
      if (j >= item.num_items) continue;
      max_sum[j] = read_block_pair(part + kRows * kD + 2 * r, first_block + j);
      parts[j] = read_block(part + 4 * i, first_block + j);
    }
    float highest = -INFINITY;
#pragma unroll
    for (int j = 0; j < kMaxTileCluster; ++j) highest = fmaxf(highest, max_sum[j].x);
    float total = 0;
    float mixed[4] = {};
#pragma unroll
    for (int j = 0; j < kMaxTileCluster; ++j) {
      const float factor = max_sum[j].x == -INFINITY ? 0.0F : exp2f(max_sum[j].x - highest);
      total += factor * max_sum[j].y;
      add_columns(mixed, factor, parts[j]);
    }
    store_columns(row_of<T>(args.attention, item, kv_head, r) + i % (kD / 4) * 4, mixed,
                  share_of(args.attention, item, kv_head, r, highest, total));
  }
}

}  // namespace tandem::cuda
