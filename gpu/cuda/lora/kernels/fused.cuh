// y += (x A^T) B^T for one tile of up to eight rows of one adapter and module, in one kernel.
//
//   v[t][r]  = sum_i x[t][i] A[r][i]       "shrink": every warp of the cluster owns a piece of i
//   y[t][o] += sum_r v[t][r] B[o][r]       "expand": every warp owns a piece of o
//
// Grid: (cluster x splits, modules, tiles); a cluster is 1 to 16 blocks of 8 warps. The warps'
// partial v are summed in shared memory, then across the cluster (each block reads the others'
// sums), always in the same order, so the result is reproducible. v then becomes two numbers of the
// compute dtype, v = high + low, which keeps it within 2^-17 of the float sum.
//
// Bound by reading A and B, each once per tile. Every warp streams its own pieces of A, then of B,
// through its own ring in shared memory (stream.cuh). B does not depend on v, so memory stays busy
// while the cluster synchronises. The tile's rows are the products' M dimension, so that weights
// are read in units of only eight rows of A or B. Small steps are bound by the number of
// instructions from launch to store: so there are no divisions, and loads are early.
//
// Tried (H200, 4096 to 4096, rank 64, us): loading weights straight to registers, 16 bytes per
// thread: 112 for 256 distinct rows against 64 at copy speed, as 128 registers allow too few loads
// in flight. Six stages with one block per multiprocessor: 2 % at most. Prefetching a warp's B into
// L2 at its start: 89 instead of 75. Bulk copies for the rings (a plain read of 67 MB): 17.0 us
// with 8 KiB each, as with loads, but 50 with 1 KiB and 89 with 256 bytes, the size of A's rows.
// Reserving part of the cluster for tiles of lower ranks: mixed ranks got slower. Eight units of y
// in flight instead of four: 1 to 3 % slower up to 16 rows.
//
// How 256 rows of rank 16 spend 31 us (H100; 67 MB: 22.3 at copy speed, 24.8 for a plain read): 1.4
// until segment and table are known, 1 until weights are in flight, which then arrive at 0.95 of
// copy speed; blocks end up to 3 us apart.
#pragma once

#include "gpu/cuda/base/launch_order.cuh"
#include "gpu/cuda/lora/kernels/expand.cuh"
#include "gpu/cuda/lora/kernels/launch_tiles.cuh"
#include "gpu/cuda/lora/kernels/shrink.cuh"
#include "gpu/cuda/lora/kernels/tile_rows.cuh"

namespace tandem::cuda {

template <typename T, bool kPaged, bool kLowRank>
__global__ void __launch_bounds__(kLoraThreads, 2)
    fused_lora(const __grid_constant__ LoraParams p, const LoraCut cut) {
  extern __shared__ __align__(1024) std::byte shared_bytes[];
  allow_next_kernel();
  const int which = static_cast<int>(blockIdx.y);
  const LoraPlace place(cut);
  const LoraTile tile = find_tile(p, kShortTileRows, place.tile);
  LoraEntry entry{};
  if (tile.count > 0) entry = entry_of(p, tile.slot, which);
  const int lane = threadIdx.x % 32;
  std::int32_t row = -1;  // row of x and y
  if (lane / 4 < tile.count) row = static_cast<std::int32_t>(row_of(p, tile.first + lane / 4));
  if (tile.count <= 0 || entry.rank <= 0) {
    wait_for_previous_kernels();
    return;
  }
  const LoraOutput out = p.out[which];
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int all_columns = (out.cols + kUnit - 1) / kUnit;
  const int log_columns = place.log_parts + kLogLoraWarps;
  const int first_columns = place.part << kLogLoraWarps;
  const LoraWork w{entry,
                   cut.padded_rank > 0 ? cut.padded_rank : entry.rank,
                   p.in,
                   out.cols,
                   warp,
                   lane / 4,
                   lane % 4,
                   place.block,
                   place.log_blocks,
                   warp_columns(all_columns, log_columns, first_columns + warp)};
  const auto shared_at = static_cast<unsigned>(__cvta_generic_to_shared(shared_bytes));
  using Stream = WeightStream<T, kPaged, kLowRank>;
  Stream stream(p, tile.slot, w, shared_at + static_cast<unsigned>(warp * kStages * kStageBytes));
#pragma unroll 1
  for (int i = 0; i < kStages; ++i) stream.send();
  prefetch_rows<T>(p, tile, out, LoraRange((p.in + kUnit - 1) / kUnit, w.log_blocks, w.block),
                   (all_columns * first_columns) >> log_columns,
                   (all_columns * (first_columns + kLoraWarps)) >> log_columns);
  wait_for_previous_kernels();

  const int most_rows = min(kShortTileRows, p.max_count);
  const LoraShared shared(most_rows, p.max_rank);
  auto* v = reinterpret_cast<float*>(shared_bytes + shared.v_at);
  auto* partial = reinterpret_cast<float*>(shared_bytes + shared.partial_at);
  const int v_ranks = round_up(w.rank, 8);
  sum_passes(p, tile, w, stream, row, most_rows, partial, v, shared.v_pitch);
  Expand<T, Stream> expand(p, w, stream, row, out);
  if (w.log_blocks > 0) {
    cluster_arrive();
    expand.begin();
    cluster_wait();
  } else {
    expand.begin();
    __syncthreads();
  }
  T* high = reinterpret_cast<T*>(partial);
  T* low = high + most_rows * shared.high_pitch;
  gather_v<T>(w.log_blocks, place.first_block, tile.count, v, v_ranks, shared.v_pitch, high, low,
              shared.high_pitch);
  __syncthreads();
  if (w.log_blocks > 0) cluster_arrive();
  const auto high_at = static_cast<unsigned>(__cvta_generic_to_shared(high));
  const auto low_at = static_cast<unsigned>(__cvta_generic_to_shared(low));
  const unsigned pitch = static_cast<unsigned>(shared.high_pitch) * sizeof(T);
  run_expand(expand, stream, entry.b_stride, high_at, low_at, pitch);
  if (w.log_blocks > 0) cluster_wait();  // no other block reads this block's v any more
}

template <typename T, bool kPaged, bool kLowRank>
cudaError_t launch_fused(const LoraParams& p, const LoraCut& cut, cudaStream_t stream) {
  constexpr auto kKernel = fused_lora<T, kPaged, kLowRank>;
  int most = 0;
  if (const cudaError_t error = prepare_kernel<kKernel>(cut, most); error != cudaSuccess) {
    return error;
  }
  const LoraShared shared(p.max_count < kShortTileRows ? p.max_count : kShortTileRows, p.max_rank);
  // On sm_86, 89 and 120 a block has 99 KB, which the rings almost fill: slow there, but correct.
  if (shared.bytes > most) return launch_lora_plain(p, cut.overlap, stream);
  return launch_tiles<kKernel>(p, cut, kLoraThreads, shared.bytes, stream);
}

template <typename T, bool kPaged>
cudaError_t launch_fused(const LoraParams& p, const LoraCut& cut, cudaStream_t stream) {
  return p.max_rank <= 8 ? launch_fused<T, kPaged, true>(p, cut, stream)
                         : launch_fused<T, kPaged, false>(p, cut, stream);
}

}  // namespace tandem::cuda
