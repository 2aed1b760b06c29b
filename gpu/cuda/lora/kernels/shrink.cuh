// v = x A^T for a tile: the warps' partial sums, their sum in the block, then across the cluster.
#pragma once

#include "gpu/cuda/base/cluster.cuh"
#include "gpu/cuda/lora/kernels/stream.cuh"

namespace tandem::cuda {

__host__ __device__ constexpr int round_up(int n, int to) {
  return (n + to - 1) / to * to;
}

// Floats per row of partial sums for this many ranks, padded to avoid bank conflicts. With up to 48
// ranks the padding is four less, so that two blocks fit a multiprocessor up to rank 128.
__host__ __device__ constexpr int partial_pitch(int ranks) {
  return round_up(ranks, kPairRanks) + (ranks > 2 * kPairRanks && ranks <= 3 * kPairRanks ? 4 : 8);
}

// A block's shared memory, as byte offsets: the warps' rings, the block's own v, which the cluster
// reads, then the warps' partial sums of up to 64 ranks, later v as high and low.
struct LoraShared {
  int v_pitch;     // elements per row of v: its ranks, a multiple of 8
  int high_pitch;  // for v as high or low: an odd multiple of 32, at least 64 ranks
  int v_at;
  int partial_at;
  int bytes;

  __host__ __device__ LoraShared(int rows, int max_rank) {
    v_pitch = round_up(max_rank, 8);
    high_pitch = 32 * ((round_up(v_pitch, 64) / 32) | 1);
    v_at = kLoraWarps * kStages * kStageBytes;
    partial_at = v_at + rows * v_pitch * 4;
    int partial = 0;  // floats per row, the maximum over all passes
    for (int ranks = kPairRanks; ranks <= kPassRanks && ranks < max_rank + kPairRanks;
         ranks += kPairRanks) {
      const int floats = (kLoraWarps >> log_rank_groups(ranks)) * partial_pitch(ranks);
      partial = partial > floats ? partial : floats;
    }
    partial *= rows * 4;
    const int halves = 2 * rows * high_pitch * 2;
    bytes = partial_at + (partial > halves ? partial : halves);
  }
};

// Adds 16 ranks over this warp's units of `in` into partial[row][rank], with rows `pitch` apart;
// `row` is the lane's row of x, -1: none.
template <typename T, bool kPaged>
__device__ __forceinline__ void shrink(const LoraParams& p, const LoraWork& w,
                                       WeightStream<T, kPaged, false>& stream, LoraRange k,
                                       std::int32_t row, float* partial, int pitch) {
  float acc[2][4] = {};
  const unsigned at = static_cast<unsigned>(w.g * 256 + w.t * 16) ^ ((w.g & 1) * 64U);
  const T* x = static_cast<const T*>(p.x) + row * p.x_stride + w.t * 8;
#pragma unroll 1
  for (int u = k.begin; u < k.end; u += kChunkUnits) {
    Words<4> words[kChunkUnits];
#pragma unroll
    for (int i = 0; i < kChunkUnits; ++i) {
      const bool inside = u + i < k.end && (u + i) * kUnit + w.t * 8 < w.in;
      words[i] = load_activations(x + (u + i) * kUnit, inside && row >= 0);
    }
    const unsigned stage = stream.take() + at;
#pragma unroll
    for (int i = 0; i < kChunkUnits; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const unsigned from = (stage ^ (i % 2 * 64U)) + i / 2 * 128U + j * 2048U;
        multiply<T>(acc[j], words[i], Words<4>{}, load_shared<4>(from));
      }
    }
    stream.release();
  }
  if (row < 0) return;
  float* to = partial + w.g * pitch + 2 * w.t;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    *reinterpret_cast<float2*>(to + j * 8) = make_float2(acc[j][0], acc[j][1]);
  }
}

// Likewise for an adapter of up to eight ranks.
template <typename T, bool kPaged>
__device__ __forceinline__ void shrink_low_rank(const LoraParams& p, const LoraWork& w,
                                                WeightStream<T, kPaged, true>& stream, LoraRange k,
                                                std::int32_t row, float* partial) {
  float acc[2][4] = {};
  const unsigned at = static_cast<unsigned>(w.g * 512 + w.t * 16) ^ ((w.g & 1) * 64U);
  const T* x = static_cast<const T*>(p.x) + row * p.x_stride + w.t * 8;
#pragma unroll 1
  for (int u = k.begin; u < k.end; u += 2 * kChunkUnits) {
    Words<4> words[2 * kChunkUnits];
#pragma unroll
    for (int i = 0; i < 2 * kChunkUnits; ++i) {
      const bool inside = u + i < k.end && (u + i) * kUnit + w.t * 8 < w.in;
      words[i] = load_activations(x + (u + i) * kUnit, inside && row >= 0);
    }
    const unsigned stage = stream.take() + at;
#pragma unroll
    for (int i = 0; i < 2 * kChunkUnits; ++i) {
      multiply<T>(acc[i % 2], words[i], Words<4>{},
                  load_shared<4>((stage ^ (i % 2 * 64U)) + i / 2 * 128U));
    }
    stream.release();
  }
  if (row < 0) return;
  *reinterpret_cast<float2*>(partial + 2 * w.t) =
      make_float2(acc[0][0] + acc[1][0], acc[0][1] + acc[1][1]);
}

__device__ __forceinline__ float4 sum_of(const float4& a, const float4& b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Maps 0, 1, ... to a row and a group of four columns, without a division.
struct QuadIndex {
  int log_quads;
  __device__ __forceinline__ explicit QuadIndex(int quads) {  // quads > 1
    asm("bfind.u32 %0, %1;" : "=r"(log_quads) : "r"(quads - 1));
    ++log_quads;
  }
  __device__ __forceinline__ int row(int i) const { return i >> log_quads; }
  __device__ __forceinline__ int column(int i) const { return (i & ((1 << log_quads) - 1)) * 4; }
};

// Adds up the partial sums of one pass, from `parts` warps, into v[row][rank].
__device__ __forceinline__ void sum_warps(int count, const float* partial, int parts, int pitch,
                                          int rows, int ranks, float* v, int v_pitch) {
  const QuadIndex index(ranks / 4);
#pragma unroll 1
  for (int i = threadIdx.x; i < count << index.log_quads; i += kLoraThreads) {
    const int column = index.column(i);
    if (column >= ranks) continue;
    const float* from = partial + index.row(i) * pitch + column;
    float4 sum = *reinterpret_cast<const float4*>(from);
#pragma unroll 1
    for (int part = 1; part < parts; ++part) {
      from += rows * pitch;
      sum = sum_of(sum, *reinterpret_cast<const float4*>(from));
    }
    *reinterpret_cast<float4*>(v + index.row(i) * v_pitch + column) = sum;
  }
}

// Computes v for all ranks over the block's units of `in`; complete at the block's next barrier.
// `row`: the lane's row of x, -1: none. `partial`: space for the warps' sums.
template <typename T, bool kPaged, bool kLowRank>
__device__ __forceinline__ void sum_passes(const LoraParams& p, const LoraTile& tile,
                                           const LoraWork& w,
                                           WeightStream<T, kPaged, kLowRank>& stream,
                                           std::int32_t row, int most_rows, float* partial,
                                           float* v, int v_pitch) {
  const int v_ranks = round_up(w.rank, 8);
#pragma unroll 1
  for (int rank0 = 0; rank0 < v_ranks; rank0 += kPassRanks) {
    const int ranks = min(kPassRanks, v_ranks - rank0);
    const int log_groups = log_rank_groups(ranks);
    const int pitch = partial_pitch(ranks);
    if (rank0 > 0) __syncthreads();  // the previous sums have been read
    float* own = partial + (w.warp >> log_groups) * most_rows * pitch;
    const LoraRange k = w.inputs(log_groups);
    if constexpr (kLowRank) {
      shrink_low_rank(p, w, stream, k, row, own + w.g * pitch);
    } else {
#pragma unroll 1
      for (int r = (w.warp & ((1 << log_groups) - 1)) * kPairRanks; r < ranks;
           r += kPairRanks << log_groups) {
        shrink(p, w, stream, k, row, own + r, pitch);
      }
    }
    __syncthreads();
    sum_warps(tile.count, partial, kLoraWarps >> log_groups, pitch, most_rows, ranks, v + rank0,
              v_pitch);
  }
}

// Splits each of four numbers into a sum of two of type T.
template <typename T>
__device__ __forceinline__ void split(T, const float4& sum, uint2& high, uint2& low) {
  const float all[4] = {sum.x, sum.y, sum.z, sum.w};
  float rest[4];
  unsigned words[2];
#pragma unroll
  for (int j = 0; j < 4; j += 2) {
    words[j / 2] = pack(T(), clamp_to(T(), all[j]), clamp_to(T(), all[j + 1]));
    const float2 kept = unpack(T(), words[j / 2]);
    rest[j] = clamp_to(T(), all[j] - kept.x);
    rest[j + 1] = clamp_to(T(), all[j + 1] - kept.y);
  }
  high = make_uint2(words[0], words[1]);
  low = make_uint2(pack(T(), rest[0], rest[1]), pack(T(), rest[2], rest[3]));
}

// Adds up all blocks' v as high and low, with zeros from the last rank to a multiple of 64. A lane
// reads four sums of one block; the lanes that read the same four of other blocks add them up.
// `first_block`: the first of the tile's blocks in the cluster.
template <typename T>
__device__ __forceinline__ void gather_v(int log_blocks, int first_block, int count, const float* v,
                                         int ranks, int v_pitch, T* high, T* low, int pitch) {
  const int columns = round_up(ranks, 64);
  const QuadIndex index(columns / 4);
  const int many = count << (index.log_quads + log_blocks);
  const int mine = static_cast<int>(threadIdx.x) & ((1 << log_blocks) - 1);
#pragma unroll 1
  for (int base = 0; base < many; base += kLoraThreads) {
    const int n = base + static_cast<int>(threadIdx.x);
    const int row = index.row(n >> log_blocks);
    const int column = index.column(n >> log_blocks);
    float4 sum{};
    if (column < ranks && n < many) {
      const float* from = v + row * v_pitch + column;
      sum = log_blocks == 0 ? *reinterpret_cast<const float4*>(from)
                            : read_block(from, first_block + mine);
    }
#pragma unroll 1
    for (int step = 1; step < 1 << log_blocks; step *= 2) {
      sum.x += __shfl_xor_sync(~0U, sum.x, step);
      sum.y += __shfl_xor_sync(~0U, sum.y, step);
      sum.z += __shfl_xor_sync(~0U, sum.z, step);
      sum.w += __shfl_xor_sync(~0U, sum.w, step);
    }
    if (n >= many || mine != 0 || column >= columns) continue;
    uint2 upper;
    uint2 rest;
    split(T(), sum, upper, rest);
    *reinterpret_cast<uint2*>(high + row * pitch + column) = upper;
    *reinterpret_cast<uint2*>(low + row * pitch + column) = rest;
  }
}

}  // namespace tandem::cuda
