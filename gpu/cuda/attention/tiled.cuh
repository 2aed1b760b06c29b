// S = scale Q K^T, P = softmax(S), out = P V for one tile of 16 packed query rows and a span of
// keys.
//
// Grid: KV heads x items. Each team of a block's warps takes every kTeams-th group of 16 keys
// through its own ring of cp.async stages, so the main loop has no block-wide barrier: copies of
// kStages - 1 groups are in flight per team, at least 64 KB per multiprocessor, as needed to keep
// the memory busy. Bound by reading K and V once; the tensor cores would be 4 times as fast, even
// with one valid row of 16, so the kernel is the same for every group size. With a window, an item
// takes only the keys of its span that a row of its tile sees, which may be none (kBounded). Teams,
// and then the items of a tile, are merged by their softmax maxima: items through shared memory if
// their blocks form one cluster, otherwise by the last block of the tile to arrive. Sinks join the
// sums at the end.
#pragma once

#include <cmath>

#include "gpu/cuda/attention/kernels.h"
#include "gpu/cuda/attention/mma.cuh"
#include "gpu/cuda/attention/tiled_merge.cuh"
#include "gpu/cuda/attention/tiled_shape.cuh"
#include "gpu/cuda/base/cache_policy.cuh"
#include "gpu/cuda/base/cluster.cuh"
#include "gpu/cuda/base/cuda_status.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/base/memory_order.cuh"
#include "gpu/cuda/elementwise/activation.cuh"

namespace tandem::cuda {

// kBounded: windows and softcaps are heeded, which takes registers and instructions.
template <typename T, int kD, bool kBounded>
class TiledWarp {
  using Shape = TiledShape<kD>;

 public:
  __device__ TiledWarp(const TiledArgs& args, const TileItem& item, int kv_head, char* shared)
      : args_(args.attention),
        item_(item),
        kv_head_(kv_head),
        lane_(static_cast<int>(threadIdx.x) % 32),
        member_(static_cast<int>(threadIdx.x) / 32 % Shape::kTeamWarps),
        group_(args_.group),
        values_(static_cast<std::int64_t>(args_.kv_heads) * args_.cache.page_tokens * kD),
        shared_(shared_address(shared)) {}

  // The first element of this lane's key, in the group of 16 keys that starts at `first`.
  __device__ std::int64_t place_of(int first) const {
    const int key = min(first + lane_ % 16, item_.end_key - 1);
    const int page_tokens = args_.cache.page_tokens;
    const int page_index = key / page_tokens;
    const std::int64_t page = args_.page_ids[item_.pages + page_index];
    const int within = key - page_index * page_tokens;
    return page * args_.cache.page_stride +
           static_cast<std::int64_t>(kv_head_ * page_tokens + within) * kD;
  }

  __device__ void copy(int stage, int first, std::int64_t place) const {
    const std::uint32_t to = shared_ + stage * 2 * Shape::kTileBytes;
    const T* base = static_cast<const T*>(args_.cache.base);
    constexpr int kPieces = Shape::kKeys * Shape::kChunks / Shape::kTeamThreads;
    const int thread = member_ * 32 + lane_;
    std::int64_t from[kPieces];  // all shuffles first, so that latencies overlap
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int piece = thread + Shape::kTeamThreads * i;
      from[i] = __shfl_sync(~0U, place, piece / Shape::kChunks) + piece % Shape::kChunks * 8;
    }
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int row = (thread + Shape::kTeamThreads * i) / Shape::kChunks;
      const int chunk = (thread + Shape::kTeamThreads * i) % Shape::kChunks;
      const bool valid = first + row < item_.end_key;
      copy16_async(to + Shape::place(row, chunk), base + from[i], valid, once_);
      copy16_async(to + Shape::kTileBytes + Shape::place(row, chunk), base + from[i] + values_,
                   valid, once_);
    }
  }

  // Loads this lane's part of Q in the layout of multiply_add; rows past the tile's are zero.
  __device__ void load_queries() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = lane_ / 4 + 8 * half;
      const int packed = item_.packed + r;
      const int row = packed / group_;
      const bool valid = r < item_.count;
      const int seen = item_.kv_len - item_.num_rows + row + 1;
      visible_[half] = valid ? min(seen, item_.end_key) : 0;
      if constexpr (kBounded) hidden_[half] = args_.window == 0 ? 0 : max(0, seen - args_.window);
      const T* from = static_cast<const T*>(args_.q) + (item_.first_row + row) * args_.q_row +
                      (kv_head_ * group_ + packed - row * group_) * args_.q_head + lane_ % 4 * 2;
#pragma unroll
      for (int i = 0; i < kD / 8; ++i) {
        std::uint32_t bits = 0;
        if (valid) bits = *reinterpret_cast<const std::uint32_t*>(from + 8 * i);
        q_[i / 2][i % 2 * 2 + half] = bits;
      }
    }
  }

  // One step of the online softmax over the 16 keys from `first` on, which are in stage `stage`.
  __device__ void attend(int stage, int first) {
    const std::uint32_t keys = shared_ + stage * 2 * Shape::kTileBytes;
    float s[2][4] = {};
    // Matrices: keys 0..7 and 8..15, each for the two halves of 16 columns.
    const int key_row = lane_ % 8 + lane_ / 16 * 8;
#pragma unroll
    for (int i = 0; i < kD / 16; ++i) {
      std::uint32_t k[4];
      load_matrices(k, keys + Shape::place(key_row, 2 * i + lane_ / 8 % 2));
      multiply_add<T>(s[0], q_[i], k[0], k[1]);
      multiply_add<T>(s[1], q_[i], k[2], k[3]);
    }
    constexpr float kLog2E = 1.4426950408889634F;  // exp(x) as 2^(x log2 e)
    float scale = args_.scale * kLog2E;
    if constexpr (kBounded) {
      if (args_.softcap != 0) {
        scale = args_.softcap * kLog2E;
        const float in = __fdividef(args_.scale, args_.softcap);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) s[i][j] = fast_tanh(s[i][j] * in);
        }
      }
    }
    std::uint32_t p[4];
    float keep[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float row[4];
      float larger = max_[half];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first + i / 2 * 8 + lane_ % 4 * 2 + i % 2;
        bool sees = key < visible_[half];
        if constexpr (kBounded) sees = sees && key >= hidden_[half];
        row[i] = sees ? s[i / 2][half * 2 + i % 2] * scale : -INFINITY;
        larger = fmaxf(larger, row[i]);
      }
      larger = fmaxf(larger, __shfl_xor_sync(~0U, larger, 1));
      larger = fmaxf(larger, __shfl_xor_sync(~0U, larger, 2));
      const float origin = larger == -INFINITY ? 0.0F : larger;
      keep[half] = exp2f(max_[half] - origin);
      max_[half] = larger;
#pragma unroll
      for (int i = 0; i < 4; ++i) row[i] = exp2f(row[i] - origin);
      sum_[half] = sum_[half] * keep[half] + ((row[0] + row[1]) + (row[2] + row[3]));
      p[half] = pack2<T>(row[0], row[1]);
      p[half + 2] = pack2<T>(row[2], row[3]);
    }
    if (__any_sync(~0U, keep[0] != 1.0F || keep[1] != 1.0F)) {
#pragma unroll
      for (int i = 0; i < Shape::kColumns / 8; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) out_[i][j] *= keep[j / 2];
      }
    }
    const std::uint32_t values = keys + Shape::kTileBytes;
    // Matrices: keys 0..7 and 8..15, for two neighbouring groups of 8 columns.
#pragma unroll
    for (int i = 0; i < Shape::kColumns / 16; ++i) {
      const int chunk = member_ * Shape::kColumns / 8 + 2 * i + lane_ / 16;
      std::uint32_t v[4];
      load_matrices_transposed(v, values + Shape::place(lane_ % 16, chunk));
      multiply_add<T>(out_[2 * i], p, v[0], v[1]);
      multiply_add<T>(out_[2 * i + 1], p, v[2], v[3]);
    }
  }

  // Waits until all of the team's threads are here, and orders what they wrote to shared memory.
  __device__ void meet() const {
    if constexpr (Shape::kTeamWarps == 1) {
      __syncwarp();
    } else {
      const int team = static_cast<int>(threadIdx.x) / Shape::kTeamThreads;
      asm volatile("bar.sync %0, %1;\n" ::"r"(1 + team), "n"(Shape::kTeamThreads) : "memory");
    }
  }

  // Stores the warp's state in its team's part of shared memory: out [rows, stride], max [rows],
  // sum [rows].
  __device__ void leave(float* out, float* max, float* sum) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = lane_ / 4 + 8 * half;
      float total = sum_[half];
      total += __shfl_xor_sync(~0U, total, 1);
      total += __shfl_xor_sync(~0U, total, 2);
      if (r >= item_.count) continue;
      if (lane_ % 4 == 0 && member_ == 0) {
        max[r] = max_[half];
        sum[r] = total;
      }
#pragma unroll
      for (int i = 0; i < Shape::kColumns / 8; ++i) {
        const int column = member_ * Shape::kColumns + 8 * i + lane_ % 4 * 2;
        *reinterpret_cast<float2*>(out + r * Shape::kResultStride + column) =
            make_float2(out_[i][half * 2], out_[i][half * 2 + 1]);
      }
    }
  }

 private:
  const AttentionOperands& args_;
  const TileItem& item_;
  const int kv_head_;
  const int lane_;
  const int member_;  // which warp of its team
  const int group_;
  const std::int64_t values_;  // distance from a key to its value
  const std::uint32_t shared_;
  const std::uint64_t once_ = evict_first_policy();
  std::uint32_t q_[kD / 16][4];
  float out_[Shape::kColumns / 8][4] = {};
  float max_[2] = {-INFINITY, -INFINITY};
  float sum_[2] = {0, 0};
  int visible_[2];      // number of keys visible to the row, without those past the span
  int hidden_[2] = {};  // number of the first of these, which lie before the row's window
};

template <typename T, int kD, bool kBounded>
__global__ __launch_bounds__(TiledShape<kD>::kThreads,
                             2) void tiled_attention(const __grid_constant__ TiledArgs args) {
  using Shape = TiledShape<kD>;
  constexpr int kRows = Shape::kRows;
  constexpr int kStride = Shape::kTeams * Shape::kKeys;
  extern __shared__ __align__(128) char shared[];
  // KV heads vary fastest, so that most blocks without an item come last.
  const auto index = static_cast<std::int32_t>(blockIdx.y);
  const auto kv_head = static_cast<int>(blockIdx.x);
  TileItem item = args.items[index];
  if (index >= *args.num_items || item.num_items == 0) return;
  if constexpr (kBounded) {
    if (args.attention.window > 0) {
      const int first_row = item.packed / args.attention.group;
      const int seen = item.kv_len - item.num_rows + first_row + 1;
      item.begin_key = max(item.begin_key, seen - args.attention.window);
    }
  }
  // The next kernel's blocks start where this one's have ended, to load weights, while others of
  // this one still run: saves 1 to 2 % of a step of 8 to 64 rows (H100). Split tiles do not allow
  // it, as it would delay their merging: 1 % more time for one row (H200).
  const bool whole = item.num_items == 1;
  if (whole) allow_next_kernel();
  const int team = static_cast<int>(threadIdx.x) / Shape::kTeamThreads;
  TiledWarp<T, kD, kBounded> state(args, item, kv_head, shared + team * Shape::kTeamBytes);

  // Items and page ids were copied before the step's first kernel, and settled keys were written
  // even before that; q and the newest keys may still be missing.
  const int first = item.begin_key + team * Shape::kKeys;
  std::int64_t place[Shape::kStages];
#pragma unroll
  for (int stage = 0; stage < Shape::kStages; ++stage) {
    place[stage] = state.place_of(first + stage * kStride);
  }
  const auto fill = [&](bool settled) {
#pragma unroll
    for (int stage = 0; stage < Shape::kStages - 1; ++stage) {
      const int key = first + stage * kStride;
      // Settled keys come first, and so do the stages that hold them.
      if ((min(key + Shape::kKeys, item.end_key) <= item.settled) != settled) continue;
      if (key < item.end_key) state.copy(stage, key, place[stage]);
      commit_copies();
    }
  };
  fill(true);
  wait_for_previous_kernels();
  state.load_queries();
  fill(false);
  std::int64_t next_place = place[Shape::kStages - 1];
  int stage = 0;
  for (int key = first; key < item.end_key; key += kStride) {
    wait_for_copies<Shape::kStages - 2>();
    state.meet();  // the team's copies have landed, and the previous stage has been read
    const int ahead = key + (Shape::kStages - 1) * kStride;
    const int free_stage = stage == 0 ? Shape::kStages - 1 : stage - 1;
    if (ahead < item.end_key) {
      state.copy(free_stage, ahead, next_place);
      next_place = state.place_of(ahead + kStride);
    }
    commit_copies();
    state.attend(stage, key);
    stage = stage + 1 == Shape::kStages ? 0 : stage + 1;
  }
  wait_for_copies<0>();
  __syncthreads();  // the stages' memory now holds the teams' results
  const TiledParts<kD> parts(shared);
  state.leave(parts.out + team * kRows * Shape::kResultStride, parts.max + team * kRows,
              parts.sum + team * kRows);
  __syncthreads();
  if (!whole) allow_next_kernel();

  const bool together = !whole && args.log_cluster > 0 &&
                        item.first_item >> args.log_cluster ==
                            (item.first_item + item.num_items - 1) >> args.log_cluster;
  float* const partial =
      args.partial + (static_cast<std::int64_t>(index) * gridDim.x + kv_head) * Shape::kPart;
  mix_teams<T, kD>(args, item, kv_head, parts, whole ? nullptr : together ? parts.mixed : partial);
  if (whole) return;
  if (together) {
    cluster_arrive();
    cluster_wait();
    merge_in_cluster<T, kD>(args, item, index, kv_head, parts.mixed);
    cluster_arrive();
    cluster_wait();  // no other block reads this block's shared memory any more
    return;
  }

  // The tile's last block to arrive sees all partial results: the barrier orders a block's stores
  // before its first thread's arrival, which releases them, and likewise its reads.
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    std::uint32_t* arrived =
        args.arrived + static_cast<std::int64_t>(item.tile) * gridDim.x + kv_head;
    last = add_acquire_release(arrived, 1) + 1 == static_cast<std::uint32_t>(item.num_items);
    if (last) *arrived = 0;  // for the next launch
  }
  __syncthreads();
  if (!last) return;
  merge_items<T, kD>(args, item, kv_head, parts.out);
}

template <typename T, int kD>
Status prepare_tiled() {
  for (auto* const kernel : {tiled_attention<T, kD, false>, tiled_attention<T, kD, true>}) {
    TANDEM_TRY(cuda_status(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                TiledShape<kD>::kSharedBytes),
                           "raising the shared memory of attention"));
  }
  return {};
}

template <typename T, int kD>
Status launch_tiled(const TiledArgs& args, cudaStream_t stream) {
  using Shape = TiledShape<kD>;
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(args.attention.kv_heads),
                   static_cast<unsigned>(args.grid_items)),
      .block = TiledShape<kD>::kThreads,
      .shared_bytes = Shape::kSharedBytes,
      .overlap = true,
      .cluster = dim3(1, 1U << args.log_cluster),
  };
  const bool bounded = args.attention.window != 0 || args.attention.softcap != 0;
  return launch_kernel("attention", shape, stream,
                       bounded ? tiled_attention<T, kD, true> : tiled_attention<T, kD, false>,
                       args);
}

}  // namespace tandem::cuda
