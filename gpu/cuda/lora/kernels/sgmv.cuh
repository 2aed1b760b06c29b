// y += (x A^T) B^T for long segments, mainly prompts: a tile is 32 or 64 rows of one adapter and
// module; two products on tensor cores in one kernel.
//
// Grid: (cluster x splits, modules, tiles); a cluster is 1 to 16 blocks of 8 warps. A block
// computes v = x A^T over its part of `in`, 64 ranks at a time. Each block of the cluster then adds
// up a share of v from the others' shared memory, always in the same order, and writes it to all of
// them as two numbers of the compute dtype, v = high + low, within 2^-17 of the float sum. Then
// each adds its own columns of v B^T to y.
//
// Bound by moving x and y (8,192 rows), otherwise by the latency from launch to store (up to 256
// rows). A tile reads the weights once, mostly from L2; with tiles of 8 rows they are read too
// often. Speed needs few instructions per stage, two blocks per multiprocessor (ranks up to 64),
// and clusters that all run at once (plan.cpp).
//
// Tried (H200, us): tiles of 128 rows: 79 against 69 with 64 (8,192 rows, 4096 to 4096, rank 64);
// one lane per block in the sum over the cluster: 8 % slower at rank 64.
#pragma once

#include <type_traits>

#include "gpu/cuda/base/launch_order.cuh"
#include "gpu/cuda/lora/kernels/expand.cuh"
#include "gpu/cuda/lora/kernels/launch_tiles.cuh"
#include "gpu/cuda/lora/kernels/sgmv_shrink.cuh"

namespace tandem::cuda {

// v as high and low: shared addresses for this lane's row and piece; and column 0 of this lane's
// rows of y, null: none.
struct SgmvLeft {
  unsigned high_at, low_at;
  std::byte* y[2];
  bool wide;
};

// This warp's columns of y += v B^T, with 16 kRankTiles ranks of v, or 64 at a time. A unit is four
// products of eight columns, assigned so that a thread's results are neighbours (expand.cuh).
template <typename T, int kRankTiles, typename Ring>
__device__ __forceinline__ void sgmv_expand(Ring& ring, const SgmvWork& w, const SgmvLeft& left,
                                            bool any_rows) {
  using Shape = typename Ring::Shape;
  const unsigned lane = threadIdx.x % 32;
  Words<4> high[kRankTiles];
  Words<4> low[kRankTiles];
  const auto load = [&](int step) {
#pragma unroll
    for (int k = 0; k < kRankTiles; ++k) {
      const bool some = step + k * 16 < w.entry.rank;
      const auto at = static_cast<unsigned>((step + k * 16) * 2);
      high[k] = some ? load_matrices(left.high_at + at) : Words<4>{};
      low[k] = some ? load_matrices(left.low_at + at) : Words<4>{};
    }
  };
  const bool one_step = w.entry.rank <= kStepRanks;
  if (one_step && any_rows) load(0);
  const unsigned row = static_cast<unsigned>(sgmv_part<Shape>()) * kUnit + lane % 8 / 2 * 8 +
                       lane / 16 * 2 + lane % 2;
  unsigned b_at[kRankTiles];
#pragma unroll
  for (int k = 0; k < kRankTiles; ++k) {
    const unsigned piece = static_cast<unsigned>(k) * 2 + lane / 8 % 2;
    b_at[k] = row * 128 + ((piece ^ column_swizzle(row)) * 16);
  }
#pragma unroll 1
  for (int first = w.column_begin; first < w.column_end; first += Shape::kColumns) {
    float acc[4][4] = {};
    unsigned stage = 0;
#pragma unroll 1
    for (int step = 0; step < w.entry.rank; step += kStepRanks) {
      stage = ring.take_b();
      if (!any_rows) continue;
      if (!one_step) load(step);
#pragma unroll
      for (int k = 0; k < kRankTiles; ++k) {
        const Words<4> b0 = load_matrices(stage + b_at[k]);
        const Words<4> b1 = load_matrices(stage + b_at[k] + 4 * 128);
        multiply_k16<T>(acc[0], high[k], b0.w[0], b0.w[1]);
        multiply_k16<T>(acc[1], high[k], b0.w[2], b0.w[3]);
        multiply_k16<T>(acc[2], high[k], b1.w[0], b1.w[1]);
        multiply_k16<T>(acc[3], high[k], b1.w[2], b1.w[3]);
        multiply_k16<T>(acc[0], low[k], b0.w[0], b0.w[1]);
        multiply_k16<T>(acc[1], low[k], b0.w[2], b0.w[3]);
        multiply_k16<T>(acc[2], low[k], b1.w[0], b1.w[1]);
        multiply_k16<T>(acc[3], low[k], b1.w[2], b1.w[3]);
      }
    }
    const int column = first + sgmv_column<Shape>();
    if (column >= w.column_end) continue;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (left.y[h] == nullptr) continue;
      float delta[8];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        delta[2 * j] = acc[j][2 * h];
        delta[2 * j + 1] = acc[j][2 * h + 1];
      }
      Words<4> old{};
      if (!left.wide) {
        old = load_shared<4>(stage + Shape::kWeightBytes +
                             (static_cast<unsigned>(h) * kLoraThreads + threadIdx.x) * 16);
      }
      add_to_row<T>(left.y[h] + column * (left.wide ? 4 : 2), left.wide, old, delta);
    }
  }
}

// Waits for all blocks of the cluster, and makes all their writes visible.
__device__ __forceinline__ void meet(bool alone) {
  if (alone) {
    __syncthreads();
    return;
  }
  cluster_arrive();
  cluster_wait();
}

template <typename T, bool kPaged, int kTileRows, bool kSpare>
__global__ void __launch_bounds__(kLoraThreads, 2)
    sgmv_lora(const __grid_constant__ LoraParams p, const SgmvCut cut) {
  using Shape = SgmvShape<kTileRows>;
  extern __shared__ __align__(128) std::byte shared_bytes[];
  allow_next_kernel();
  const int which = static_cast<int>(blockIdx.y);
  const LoraTile tile = find_tile(p, kTileRows, static_cast<int>(blockIdx.z));
  LoraEntry entry{};
  if (tile.count > 0) entry = entry_of(p, tile.slot, which);
  const SgmvRows<kTileRows> rows(p, tile);
  if (tile.count <= 0 || entry.rank <= 0) {
    wait_for_previous_kernels();
    return;
  }
  const LoraOutput out = p.out[which];
  const SgmvCluster<kSpare> cluster(cut);
  const int block = cluster.block_of(static_cast<int>(blockIdx.x));
  const SgmvWork work{entry, cluster.begin(p.in, 0, block), cluster.begin(p.in, 0, block + 1),
                      cluster.begin(out.cols, cut.log_splits, static_cast<int>(blockIdx.x)),
                      cluster.begin(out.cols, cut.log_splits, static_cast<int>(blockIdx.x) + 1)};
  const bool wide = p.out_type == LoraType::f32;
  const int size = wide ? 4 : 2;
  const unsigned lane = threadIdx.x % 32;
  std::byte* y[2];  // column 0 of this lane's two rows; null: no such row
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    y[h] = nullptr;
    if (rows.own[h] < 0) continue;
    y[h] = static_cast<std::byte*>(out.data) + rows.own[h] * out.stride * size;
  }
  const SgmvShared<Shape> shared(p.max_rank);
  auto at = static_cast<unsigned>(__cvta_generic_to_shared(shared_bytes));
  asm volatile("mov.u32 %0, %0;" : "+r"(at));  // else the compiler recomputes it in every loop
  SgmvRing<T, kPaged, kTileRows> ring(p, tile.slot, work, at, rows,
                                      {wide ? nullptr : y[0], wide ? nullptr : y[1]});
  const bool few = gridDim.x * gridDim.y * gridDim.z <= 64;
  if (cut.overlap) ring.prefetch_weights(few);
  wait_for_previous_kernels();
  ring.fill(few, tile.count);
  if (!cut.overlap) ring.prefetch_weights(few);
  auto* v = reinterpret_cast<float*>(shared_bytes + shared.v_at);
  auto* extra = reinterpret_cast<float*>(shared_bytes + shared.extra_at);
  const bool any_rows = sgmv_row<Shape>() < tile.count;
#pragma unroll 1
  for (int pass = 0; pass < entry.rank; pass += kPassRanks) {
    const int rank_tiles = min(kPassRanks / 16, (entry.rank - pass + 15) / 16);
    const int inputs = work.in_end - work.in_begin;
    float acc[kPassRanks / 16][2][4] = {};
    if (rank_tiles == 1) {
      sgmv_shrink<T, 1>(ring, inputs, any_rows, acc);
    } else if (rank_tiles == 2) {
      sgmv_shrink<T, 2>(ring, inputs, any_rows, acc);
    } else {
      sgmv_shrink<T, 4>(ring, inputs, any_rows, acc);
    }
    if (pass > 0) __syncthreads();  // the previous sums have been added up
    sgmv_sum_parts<Shape>(acc, rank_tiles, v + pass, shared.pitch, extra);
  }
  meet(cluster.alone());
  sgmv_share_v<T>(cluster, block, tile.count, round_up(entry.rank, 16), v, shared.pitch,
                  reinterpret_cast<T*>(shared_bytes + shared.high_at),
                  reinterpret_cast<T*>(shared_bytes + shared.low_at));
  meet(cluster.alone());

  const unsigned v_row = (static_cast<unsigned>(sgmv_row<Shape>()) + lane % 16) *
                             static_cast<unsigned>(shared.pitch) * 2 +
                         lane / 16 * 16;
  const SgmvLeft left{at + static_cast<unsigned>(shared.high_at) + v_row,
                      at + static_cast<unsigned>(shared.low_at) + v_row,
                      {y[0], y[1]},
                      wide};
  if (entry.rank <= 16) {
    sgmv_expand<T, 1>(ring, work, left, any_rows);
  } else if (entry.rank <= 32) {
    sgmv_expand<T, 2>(ring, work, left, any_rows);
  } else {
    sgmv_expand<T, 4>(ring, work, left, any_rows);
  }
}

// On GPUs with too little shared memory per block, uses tiles of eight rows instead.
template <typename T, bool kPaged, int kTileRows, bool kSpare>
cudaError_t launch_sgmv(const LoraParams& p, const LoraCut& cut, cudaStream_t stream) {
  constexpr auto kKernel = sgmv_lora<T, kPaged, kTileRows, kSpare>;
  int most = 0;
  if (const cudaError_t error = prepare_kernel<kKernel>(cut, most); error != cudaSuccess) {
    return error;
  }
  const SgmvShared<SgmvShape<kTileRows>> shared(p.max_rank);
  if (shared.bytes > most) {
    LoraCut shorter = cut;
    shorter.tile_rows = 8;
    shorter.spare = 0;  // clusters for eight rows are powers of two
    return std::is_same_v<T, __half> ? launch_lora_f16(p, shorter, stream)
                                     : launch_lora_bf16(p, shorter, stream);
  }
  return launch_tiles<kKernel>(p, SgmvCut(cut), kLoraThreads, shared.bytes, stream);
}

template <typename T, bool kPaged>
cudaError_t launch_sgmv(const LoraParams& p, const LoraCut& cut, cudaStream_t stream) {
  if (cut.tile_rows == 64) {
    return cut.spare > 0 ? launch_sgmv<T, kPaged, 64, true>(p, cut, stream)
                         : launch_sgmv<T, kPaged, 64, false>(p, cut, stream);
  }
  return cut.spare > 0 ? launch_sgmv<T, kPaged, 32, true>(p, cut, stream)
                       : launch_sgmv<T, kPaged, 32, false>(p, cut, stream);
}

}  // namespace tandem::cuda
