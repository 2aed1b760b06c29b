// The two products of fused.cuh as separate kernels, for devices that share a model and exchange v
// in between. Both use tiles of up to eight rows:
//
//   v[t][j]  = sum_i x[t][i] A[first + j][i]      one share of an adapter's ranks
//   y[t][o] += sum_r v[t][r] B[first + o][r]      v of all shares, one after another
//
// Grid of the first: (cluster, modules, tiles); the cluster's blocks split `in`, and each adds up
// and writes its part of the tile's v. Of the second: (splits, modules, tiles); blocks are
// independent. Rings, sums and products are those of fused.cuh. Bound by reading A's share and B.
#pragma once

#include "gpu/cuda/base/launch_order.cuh"
#include "gpu/cuda/lora/kernels/expand.cuh"
#include "gpu/cuda/lora/kernels/launch_tiles.cuh"
#include "gpu/cuda/lora/kernels/shrink.cuh"
#include "gpu/cuda/lora/kernels/tile_rows.cuh"

namespace tandem::cuda {

// Adds up the v of the cluster's blocks and writes it to the rows' v in fours, of which each block
// has every 2^log_blocks-th. The lanes that read the same four of each block add them up.
__device__ __forceinline__ void write_v(const LoraParams& p, const LoraTile& tile, int which,
                                        const LoraWork& w, const float* v, int v_pitch) {
  const int columns = round_up(w.rank, 4);
  const QuadIndex index(round_up(w.rank, 8) / 4);
  const int fours = tile.count << index.log_quads;
  const int blocks = 1 << w.log_blocks;
  const int mine = static_cast<int>(threadIdx.x) & (blocks - 1);
  const int many = ((fours + blocks - 1) >> w.log_blocks) << w.log_blocks;
#pragma unroll 1
  for (int base = 0; base < many; base += kLoraThreads) {
    const int n = base + static_cast<int>(threadIdx.x);
    const int four = ((n >> w.log_blocks) << w.log_blocks) + w.block;
    const int row = index.row(four);
    const int column = index.column(four);
    const bool has = n < many && four < fours && column < columns;
    float4 sum{};
    if (has) {
      const float* from = v + row * v_pitch + column;
      sum = blocks == 1 ? *reinterpret_cast<const float4*>(from) : read_block(from, mine);
    }
#pragma unroll 1
    for (int step = 1; step < blocks; step *= 2) {
      sum.x += __shfl_xor_sync(~0U, sum.x, step);
      sum.y += __shfl_xor_sync(~0U, sum.y, step);
      sum.z += __shfl_xor_sync(~0U, sum.z, step);
      sum.w += __shfl_xor_sync(~0U, sum.w, step);
    }
    if (!has || mine != 0) continue;
    float* const to = p.v + row_of(p, tile.first + row) * p.v_stride +
                      static_cast<std::int64_t>(which) * p.v_width + column;
    *reinterpret_cast<float4*>(to) = sum;
  }
}

// Reads the tile's v as high and low, with zeros from the last rank to a multiple of 64.
template <typename T>
__device__ __forceinline__ void read_v(const LoraParams& p, const LoraTile& tile, int which,
                                       int rank, T* high, T* low, int pitch) {
  const int each = ranks_of_share(rank, p.num_shares);
  const int columns = round_up(rank, 64);
  const QuadIndex index(columns / 4);
#pragma unroll 1
  for (int i = threadIdx.x; i < tile.count << index.log_quads; i += kLoraThreads) {
    const int row = index.row(i);
    const int column = index.column(i);
    if (column >= columns) continue;
    float4 sum{};
    if (column < rank) {
      const int share = column / each;
      const float* const from =
          p.v + row_of(p, tile.first + row) * p.v_stride +
          static_cast<std::int64_t>(share * p.num_modules + which) * p.v_width +
          (column - share * each);
      sum = __ldcg(reinterpret_cast<const float4*>(from));
      if (column + 1 >= rank) sum.y = 0;  // values past the ranks are undefined
      if (column + 2 >= rank) sum.z = 0;
      if (column + 3 >= rank) sum.w = 0;
    }
    uint2 upper;
    uint2 rest;
    split(T(), sum, upper, rest);
    *reinterpret_cast<uint2*>(high + row * pitch + column) = upper;
    *reinterpret_cast<uint2*>(low + row * pitch + column) = rest;
  }
}

template <typename T, bool kPaged, bool kLowRank>
__global__ void __launch_bounds__(kLoraThreads, 2)
    shrink_lora(const __grid_constant__ LoraParams p, const LoraCut cut) {
  extern __shared__ __align__(1024) std::byte shared_bytes[];
  allow_next_kernel();
  const int which = static_cast<int>(blockIdx.y);
  const LoraTile tile = find_tile(p, kShortTileRows, static_cast<int>(blockIdx.z));
  LoraEntry entry{};
  if (tile.count > 0) entry = entry_of(p, tile.slot, which);
  const int lane = threadIdx.x % 32;
  std::int32_t row = -1;  // row of x
  if (lane / 4 < tile.count) row = static_cast<std::int32_t>(row_of(p, tile.first + lane / 4));
  const int each = ranks_of_share(entry.rank, p.num_shares);
  const int first = p.share * each;
  entry.a += static_cast<std::uint64_t>(first) * static_cast<unsigned>(p.in) * sizeof(T);
  entry.rank = min(each, entry.rank - first);
  if (tile.count <= 0 || entry.rank <= 0) {
    wait_for_previous_kernels();
    return;
  }
  const int warp = static_cast<int>(threadIdx.x / 32);
  const LoraWork w{entry,
                   entry.rank,
                   p.in,
                   0,
                   warp,
                   lane / 4,
                   lane % 4,
                   static_cast<int>(blockIdx.x),
                   cut.log_cluster,
                   LoraRange(0, 0, 0)};
  const auto shared_at = static_cast<unsigned>(__cvta_generic_to_shared(shared_bytes));
  WeightStream<T, kPaged, kLowRank> stream(
      p, tile.slot, w, shared_at + static_cast<unsigned>(warp * kStages * kStageBytes));
#pragma unroll 1
  for (int i = 0; i < kStages; ++i) stream.send();
  prefetch_rows<T>(p, tile, LoraOutput{},
                   LoraRange((p.in + kUnit - 1) / kUnit, w.log_blocks, w.block), 0, 0);
  wait_for_previous_kernels();

  const int most_rows = min(kShortTileRows, p.max_count);
  const LoraShared shared(most_rows, ranks_of_share(p.max_rank, p.num_shares));
  auto* v = reinterpret_cast<float*>(shared_bytes + shared.v_at);
  auto* partial = reinterpret_cast<float*>(shared_bytes + shared.partial_at);
  sum_passes(p, tile, w, stream, row, most_rows, partial, v, shared.v_pitch);
  __syncthreads();
  if (w.log_blocks > 0) {
    cluster_arrive();
    cluster_wait();
  }
  write_v(p, tile, which, w, v, shared.v_pitch);
  if (w.log_blocks > 0) {  // another block may still read this block's v
    cluster_arrive();
    cluster_wait();
  }
}

template <typename T, bool kPaged>
__global__ void __launch_bounds__(kLoraThreads, 2)
    expand_lora(const __grid_constant__ LoraParams p, const LoraCut cut) {
  extern __shared__ __align__(1024) std::byte shared_bytes[];
  allow_next_kernel();
  const int which = static_cast<int>(blockIdx.y);
  const LoraTile tile = find_tile(p, kShortTileRows, static_cast<int>(blockIdx.z));
  LoraEntry entry{};
  if (tile.count > 0) entry = entry_of(p, tile.slot, which);
  const int lane = threadIdx.x % 32;
  std::int32_t row = -1;  // row of y
  if (lane / 4 < tile.count) row = static_cast<std::int32_t>(row_of(p, tile.first + lane / 4));
  if (tile.count <= 0 || entry.rank <= 0) {
    wait_for_previous_kernels();
    return;
  }
  entry.b += static_cast<std::uint64_t>(p.first_column) * static_cast<unsigned>(entry.b_stride) *
             sizeof(T);
  const LoraOutput out = p.out[which];
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int all_columns = (out.cols + kUnit - 1) / kUnit;
  const int log_columns = cut.log_splits + kLogLoraWarps;
  const int first_columns = static_cast<int>(blockIdx.x) << kLogLoraWarps;
  const LoraWork w{entry,    entry.rank,
                   p.in,     out.cols,
                   warp,     lane / 4,
                   lane % 4, 0,
                   0,        warp_columns(all_columns, log_columns, first_columns + warp)};
  const auto shared_at = static_cast<unsigned>(__cvta_generic_to_shared(shared_bytes));
  using Stream = WeightStream<T, kPaged, false>;
  Stream stream(p, tile.slot, w, shared_at + static_cast<unsigned>(warp * kStages * kStageBytes),
                false);
#pragma unroll 1
  for (int i = 0; i < kStages; ++i) stream.send();
  prefetch_rows<T>(p, tile, out, LoraRange(0, 0, 0), (all_columns * first_columns) >> log_columns,
                   (all_columns * (first_columns + kLoraWarps)) >> log_columns);
  wait_for_previous_kernels();

  const LoraShared shared(min(kShortTileRows, p.max_count), p.max_rank);
  Expand<T, Stream> expand(p, w, stream, row, out);
  expand.begin();
  T* high = reinterpret_cast<T*>(shared_bytes + shared.partial_at);
  T* low = high + min(kShortTileRows, p.max_count) * shared.high_pitch;
  read_v<T>(p, tile, which, w.rank, high, low, shared.high_pitch);
  __syncthreads();
  run_expand(expand, stream, entry.b_stride, static_cast<unsigned>(__cvta_generic_to_shared(high)),
             static_cast<unsigned>(__cvta_generic_to_shared(low)),
             static_cast<unsigned>(shared.high_pitch) * static_cast<unsigned>(sizeof(T)));
}

template <auto kKernel>
cudaError_t launch_half(const LoraParams& p, int max_rank, const LoraCut& cut,
                        cudaStream_t stream) {
  int most = 0;
  if (const cudaError_t error = prepare_kernel<kKernel>(cut, most); error != cudaSuccess) {
    return error;
  }
  const LoraShared shared(p.max_count < kShortTileRows ? p.max_count : kShortTileRows, max_rank);
  if (shared.bytes > most) return launch_lora_plain(p, cut.overlap, stream);
  return launch_tiles<kKernel>(p, cut, kLoraThreads, shared.bytes, stream);
}

template <typename T, bool kPaged>
cudaError_t launch_half(const LoraParams& p, const LoraCut& cut, cudaStream_t stream) {
  if (p.half == LoraHalf::expand) {
    return launch_half<expand_lora<T, kPaged>>(p, p.max_rank, cut, stream);
  }
  const int ranks = ranks_of_share(p.max_rank, p.num_shares);
  return ranks <= 8 ? launch_half<shrink_lora<T, kPaged, true>>(p, ranks, cut, stream)
                    : launch_half<shrink_lora<T, kPaged, false>>(p, ranks, cut, stream);
}

}  // namespace tandem::cuda
