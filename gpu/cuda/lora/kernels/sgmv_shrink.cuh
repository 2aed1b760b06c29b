// v = x A^T for a tile of sgmv.cuh: a block's part of `in`, and the sum over the cluster.
#pragma once

#include "gpu/cuda/lora/kernels/sgmv_ring.cuh"

namespace tandem::cuda {

// A block's shared memory, as byte offsets: the ring, v in float, the partial sums of a pass's
// ranks from the third part on, and v as high and low.
template <typename Shape>
struct SgmvShared {
  int pitch;  // elements per row of v: an odd multiple of 16 bytes for either type
  int v_at, extra_at, high_at, low_at, bytes;
  static constexpr int kExtraPitch = kPassRanks + 8;

  __host__ __device__ explicit SgmvShared(int max_rank) {
    pitch = round_up(max_rank, 16) + 8;
    v_at = Shape::kStages * Shape::kBytes;
    extra_at = v_at + Shape::kRows * pitch * 4;
    high_at = extra_at + (Shape::kParts - 2) * Shape::kRows * kExtraPitch * 4;
    low_at = high_at + Shape::kRows * pitch * 2;
    bytes = low_at + Shape::kRows * pitch * 2;
  }
};

// Loads four 8 x 8 matrices of 16-bit elements; lane l addresses row l % 8 of matrix l / 8.
__device__ __forceinline__ Words<4> load_matrices(unsigned from) {
  Words<4> v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "r"(from)
               : "memory");
  return v;
}

template <typename T>
__device__ __forceinline__ void multiply_k16(float (&c)[4], const Words<4>& left, unsigned b0,
                                             unsigned b1) {
  mma_k16(T(), c, left.w[0], left.w[1], left.w[2], left.w[3], b0, b1);
}

// Multiplies this warp's 16 rows of x by 16 kRankTiles ranks of A, over its share of the inputs.
template <typename T, int kRankTiles, typename Ring>
__device__ __forceinline__ void sgmv_shrink(Ring& ring, int inputs, bool any_rows,
                                            float (&acc)[kPassRanks / 16][2][4]) {
  using Shape = typename Ring::Shape;
  constexpr unsigned kPitch = Shape::kInputs * 2;
  constexpr int kTurns = Shape::kInputs / 16 / Shape::kParts;
  const unsigned lane = threadIdx.x % 32;
  const unsigned x_row = static_cast<unsigned>(sgmv_row<Shape>()) + lane % 16;
  const unsigned a_row = lane / 16 * 8 + lane % 8;
  unsigned x_at[kTurns];
  unsigned a_at[kTurns];
#pragma unroll
  for (int i = 0; i < kTurns; ++i) {
    const auto k = static_cast<unsigned>(2 * (i * Shape::kParts + sgmv_part<Shape>()));
    x_at[i] = Shape::kWeightBytes + x_row * kPitch + (((k + lane / 16) ^ (x_row & 7)) * 16);
    a_at[i] = a_row * kPitch + (((k + lane / 8 % 2) ^ (a_row & 7)) * 16);
  }
#pragma unroll 1
  for (int k = 0; k < inputs; k += Shape::kInputs) {
    const unsigned stage = ring.take();
    if (!any_rows) continue;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const Words<4> x = load_matrices(stage + x_at[i]);
      Words<4> a[kRankTiles];
#pragma unroll
      for (int j = 0; j < kRankTiles; ++j) {
        a[j] = load_matrices(stage + a_at[i] + static_cast<unsigned>(j) * 16 * kPitch);
      }
#pragma unroll
      for (int j = 0; j < kRankTiles; ++j) {
        multiply_k16<T>(acc[j][0], x, a[j].w[0], a[j].w[1]);
        multiply_k16<T>(acc[j][1], x, a[j].w[2], a[j].w[3]);
      }
    }
  }
}

// Adds up the sums of a pass from all of the block's warps into v, whose rows are `pitch` floats
// apart, at the pass's ranks.
template <typename Shape>
__device__ __forceinline__ void sgmv_sum_parts(const float (&acc)[kPassRanks / 16][2][4],
                                               int rank_tiles, float* v, int pitch, float* extra) {
  constexpr int kExtraPitch = SgmvShared<Shape>::kExtraPitch;
  const int lane = threadIdx.x % 32;
  const int row = sgmv_row<Shape>() + lane / 4;
  const int part = sgmv_part<Shape>();
  const auto each = [&](auto&& use) {
#pragma unroll
    for (int j = 0; j < kPassRanks / 16; ++j) {
      if (j >= rank_tiles) break;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          use(row + h * 8, j * 16 + n * 8 + lane % 4 * 2,
              make_float2(acc[j][n][2 * h], acc[j][n][2 * h + 1]));
        }
      }
    }
  };
  if (part > 0) {
    each([&](int r, int c, float2 sum) {
      float* to =
          part < 2 ? v + r * pitch + c : extra + ((part - 2) * Shape::kRows + r) * kExtraPitch + c;
      *reinterpret_cast<float2*>(to) = sum;
    });
  }
  __syncthreads();
  if (part > 0) return;
  each([&](int r, int c, float2 sum) {
    float2* total = reinterpret_cast<float2*>(v + r * pitch + c);
    sum = make_float2(sum.x + total->x, sum.y + total->y);
#pragma unroll
    for (int i = 0; i + 2 < Shape::kParts; ++i) {
      const float2 more =
          *reinterpret_cast<const float2*>(extra + (i * Shape::kRows + r) * kExtraPitch + c);
      sum = make_float2(sum.x + more.x, sum.y + more.y);
    }
    *total = sum;
  });
}

// Writes eight bytes to another block's shared memory, at the address `here` has in this one's.
__device__ __forceinline__ void write_block(unsigned here, int block, uint2 value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned there = 0;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(block));
  asm volatile("st.shared::cluster.v2.u32 [%0], {%1,%2};" ::"r"(there), "r"(value.x), "r"(value.y)
               : "memory");
#endif
}

// Adds up this block's share of all blocks' v, and writes it to each block as high and low. A
// thread reads the same four ranks from every block, so that a warp reads and writes contiguous
// bytes of one block after another; one lane per block would send four times as many messages.
template <typename T, bool kSpare>
__device__ __forceinline__ void sgmv_share_v(const SgmvCluster<kSpare>& cluster, int block,
                                             int count, int ranks, const float* v, int pitch,
                                             T* high, T* low) {
  constexpr int kBatch = 8;  // reads in flight at once
  const int blocks = cluster.blocks();
  const auto wrap = [&](int at) {  // for a number below twice the blocks
    if constexpr (!kSpare) return at & (blocks - 1);
    return at < blocks ? at : at - blocks;
  };
  const int quads = ranks / 4;
  const int share = cluster.share(count * quads);
  const int end = min(count * quads, (block + 1) * share);
#pragma unroll 1
  for (int n = block * share + static_cast<int>(threadIdx.x); n < end; n += kLoraThreads) {
    const int row = n / quads;
    const int at = row * pitch + (n - row * quads) * 4;
    float4 sum = *reinterpret_cast<const float4*>(v + at);
#pragma unroll 1
    for (int first = 1; first < blocks; first += kBatch) {
      float4 part[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        part[i] = first + i < blocks ? read_block(v + at, wrap(block + first + i)) : float4{};
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) sum = sum_of(sum, part[i]);
    }
    uint2 upper;
    uint2 rest;
    split(T(), sum, upper, rest);
    *reinterpret_cast<uint2*>(high + at) = upper;
    *reinterpret_cast<uint2*>(low + at) = rest;
    const auto high_at = static_cast<unsigned>(__cvta_generic_to_shared(high + at));
    const auto low_at = static_cast<unsigned>(__cvta_generic_to_shared(low + at));
#pragma unroll 1
    for (int i = 1; i < blocks; ++i) {
      const int there = wrap(block + i);
      write_block(high_at, there, upper);
      write_block(low_at, there, rest);
    }
  }
}

}  // namespace tandem::cuda
