// y += (x A^T) B^T for one tile of rows of one adapter and module, in one kernel.
//
//   v[t][r]  = sum_i x[t][i] A[r][i]       "shrink": every warp of the cluster owns a piece of i
//   y[t][o] += sum_r v[t][r] B[o][r]       "expand": every warp owns a piece of o
//
// Grid: tiles x modules x splits, each a cluster of 1 to 16 blocks of 8 warps. The warps' partial v
// are summed in shared memory, then across the cluster (each block pulls the others' sums), always
// in the same order, so the result is the same every time. v then becomes two numbers of the
// compute dtype, v = high + low, which keeps it within 2^-17 of the float sum.
//
// Bound by reading A and B, each once per tile. Every warp streams its own pieces of A, then of B,
// through a ring of its own in shared memory (stream.cuh): B does not depend on v, so memory stays
// busy while the cluster meets. Rows of the tile are the products' M, so that weights are read at a
// granularity of eight rows of A or B only.
//
// Tried: weights straight to registers, 16 bytes a thread (n=256 distinct rank 64: 112 us against
// 65 us at copy speed: too few loads in flight under 128 registers, and 9,000 instructions).
#pragma once

#include "gpu/cuda/base/launch_order.cuh"
#include "gpu/cuda/lora/stream.cuh"

namespace tandem::cuda {

__host__ __device__ constexpr int round_up(int n, int to) {
  return (n + to - 1) / to * to;
}

// Shared memory of a block, in bytes from its start: the warps' rings, the block's own v, which the
// cluster reads, then the warps' partial sums of up to 64 ranks, later v as high and low.
struct LoraShared {
  int v_pitch;     // elements from row to row of v: its ranks, a multiple of 8
  int high_pitch;  // of v as high or low: an odd multiple of 32
  int v_at;
  int partial_at;
  int bytes;

  __host__ __device__ LoraShared(int rows, int max_rank) {
    v_pitch = round_up(max_rank, 8);
    high_pitch = 32 * ((round_up(v_pitch, 32) / 32) | 1);
    v_at = kLoraWarps * kRingBytes;
    partial_at = v_at + rows * v_pitch * 4;
    const int partial = kLoraWarps * rows * kPartialPitch * 4;
    const int halves = 2 * rows * high_pitch * 2;
    bytes = partial_at + (partial > halves ? partial : halves);
  }
  static constexpr int kPartialPitch = kPassRanks + 8;
};

// What a block knows about its work.
struct LoraWork {
  const LoraParams& p;
  LoraTile tile;
  int which;   // of the modules
  int rank;    // of the loops: the adapter's, or what it is padded to
  int warp;    // of the block
  int g, t;    // of the lane, see mma.cuh
  int block;   // of the cluster
  int blocks;  // in the cluster
};

// 16 ranks over this warp's units of `in`, into partial[row][16].
template <typename T, bool kPaged>
__device__ __forceinline__ void shrink(const LoraWork& w, WeightStream<T, kPaged>& stream,
                                       LoraRange k, const T* const (&x)[2], float* partial) {
  float acc[2][4] = {};
#pragma unroll 1
  for (int u = k.begin; u < k.end; u += kChunkUnits) {
    Words<4> rows[kChunkUnits][2];
#pragma unroll
    for (int i = 0; i < kChunkUnits; ++i) {
      const int at = (u + i) * kUnit + w.t * 8;
      const bool inside = u + i < k.end && at < w.p.in;
      rows[i][0] = load_activations(x[0] + at, inside && x[0] != nullptr);
      rows[i][1] = load_activations(x[1] + at, inside && x[1] != nullptr);
    }
    const unsigned stage = stream.take();
#pragma unroll
    for (int i = 0; i < kChunkUnits; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto offset = static_cast<unsigned>((half * 8 + w.g) * 256 + i * 64 + w.t * 16);
        multiply<T>(acc[half], rows[i][0], rows[i][1],
                    load_shared<4>(stage + swap_halves(offset, 8)));
      }
    }
    stream.release();
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = h * 8 + w.g;
    if (row >= w.tile.count) continue;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      *reinterpret_cast<float2*>(partial + row * LoraShared::kPartialPitch + j * 8 + 2 * w.t) =
          make_float2(acc[j][2 * h], acc[j][2 * h + 1]);
    }
  }
}

// The warps' partial sums of one pass added up, into v[row][rank0 ..].
__device__ __forceinline__ void sum_warps(const LoraWork& w, const float* partial, int rows,
                                          int rank0, int ranks, float* v, int v_pitch) {
  constexpr int kPitch = LoraShared::kPartialPitch;
  const int quads = ranks / 4;
#pragma unroll 1
  for (int i = threadIdx.x; i < w.tile.count * quads; i += kLoraThreads) {
    const int row = i / quads;
    const int column = (i - row * quads) * 4;
    const float* from = partial + row * kPitch + column;
    float4 sum = *reinterpret_cast<const float4*>(from);
#pragma unroll
    for (int warp = 1; warp < kLoraWarps; ++warp) {
      const float4 next = *reinterpret_cast<const float4*>(from + warp * rows * kPitch);
      sum.x += next.x, sum.y += next.y, sum.z += next.z, sum.w += next.w;
    }
    *reinterpret_cast<float4*>(v + row * v_pitch + rank0 + column) = sum;
  }
}

// The cluster's barrier in two halves, and a read of another block's shared memory.
__device__ __forceinline__ void cluster_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
__device__ __forceinline__ float4 read_block(const float* local, int block) {
  float4 v{};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const auto here = static_cast<unsigned>(__cvta_generic_to_shared(local));
  unsigned there = 0;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(block));
  asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(there)
               : "memory");
#else
  v = *reinterpret_cast<const float4*>(local);
#endif
  return v;
}

// The sum of all blocks' v as high and low, zeros after the ranks up to a multiple of 32.
template <typename T>
__device__ __forceinline__ void gather_v(const LoraWork& w, const float* v, int ranks, int v_pitch,
                                         T* high, T* low, int pitch) {
  const int quads = round_up(ranks, 32) / 4;
#pragma unroll 1
  for (int i = threadIdx.x; i < w.tile.count * quads; i += kLoraThreads) {
    const int row = i / quads;
    const int column = (i - row * quads) * 4;
    float4 sum{};
    if (column < ranks) {
      const float* from = v + row * v_pitch + column;
      if (w.blocks == 1) {
        sum = *reinterpret_cast<const float4*>(from);
      } else {
#pragma unroll 4
        for (int block = 0; block < w.blocks; ++block) {
          const float4 next = read_block(from, block);
          sum.x += next.x, sum.y += next.y, sum.z += next.z, sum.w += next.w;
        }
      }
    }
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
    *reinterpret_cast<uint2*>(high + row * pitch + column) = make_uint2(words[0], words[1]);
    *reinterpret_cast<uint2*>(low + row * pitch + column) =
        make_uint2(pack(T(), rest[0], rest[1]), pack(T(), rest[2], rest[3]));
  }
}

// Adds eight neighbouring columns to y; `old` is what y holds, unless it is wide (f32).
template <typename T>
__device__ __forceinline__ void add_to_row(std::byte* row, bool wide, const Words<4>& old,
                                           const float (&delta)[8]) {
  if (wide) {
    float4* y = reinterpret_cast<float4*>(row);
    float4 first = y[0];
    float4 second = y[1];
    first.x += delta[0], first.y += delta[1], first.z += delta[2], first.w += delta[3];
    second.x += delta[4], second.y += delta[5], second.z += delta[6], second.w += delta[7];
    y[0] = first;
    y[1] = second;
    return;
  }
  unsigned sums[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 value = unpack(T(), old.w[i]);
    sums[i] = pack(T(), value.x + delta[2 * i], value.y + delta[2 * i + 1]);
  }
  *reinterpret_cast<uint4*>(row) = make_uint4(sums[0], sums[1], sums[2], sums[3]);
}

// This warp's columns of y. A unit is 32 columns: four products of eight columns, so chosen that a
// thread's results are eight neighbours (column 8t + 2j + c of the unit is column 2t + c of product
// j). kWords: 8 kWords ranks to a product step.
template <typename T, int kWords, bool kPaged>
__device__ __forceinline__ void expand(const LoraWork& w, WeightStream<T, kPaged>& stream,
                                       LoraRange units, unsigned high, unsigned low, int pitch,
                                       int b_stride) {
  constexpr auto kSize = static_cast<unsigned>(sizeof(T));
  const LoraOutput& out = w.p.out[w.which];
  const bool wide = w.p.out_type == LoraType::f32;
  const bool have[2] = {w.g < w.tile.count, w.g + 8 < w.tile.count};
  const auto lane_piece = static_cast<unsigned>(w.t * 4 * kWords);
  // Rows past the tile's end repeat row 0: their results go nowhere.
  const unsigned row_at[2] = {
      static_cast<unsigned>((have[0] ? w.g : 0) * pitch) * kSize + lane_piece,
      static_cast<unsigned>((have[1] ? w.g + 8 : 0) * pitch) * kSize + lane_piece};
  const int size = wide ? 4 : sizeof(T);
  std::byte* y[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    y[h] = have[h] ? static_cast<std::byte*>(out.data) +
                         (row_of(w.p, w.tile.first + h * 8 + w.g) * out.stride + 8 * w.t) * size
                   : nullptr;
  }
  const bool split_rows = !stream.whole_rows();
  const unsigned row_bytes = split_rows ? 128 : static_cast<unsigned>(b_stride) * kSize;
  const unsigned lane_at = static_cast<unsigned>(w.g / 2 * 8 + w.g % 2) * row_bytes + lane_piece;
  const bool swapped = row_bytes == 128;
  const int per_stage = stream.units_per_stage();
#pragma unroll 1
  for (int first = units.begin; first < units.end; first += per_stage) {
    const int many = min(per_stage, units.end - first);
    unsigned stage = 0;
    if (!split_rows) stage = stream.take();
#pragma unroll 1
    for (int u = 0; u < many; ++u) {
      const int column = (first + u) * kUnit;
      Words<4> old[2];
      const bool in_cols = column + 8 * w.t < out.cols;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        old[h] = load_activations(y[h] + column * size, in_cols && have[h] && !wide);
      }
      float acc[4][4] = {};
      const auto steps = [&](unsigned from, int rank0, int ranks) {
#pragma unroll 1
        for (int s = 0; s < ranks; s += 8 * kWords) {
          const unsigned v_at = static_cast<unsigned>(rank0 + s) * kSize;
          const auto hg = load_shared<kWords>(high + row_at[0] + v_at);
          const auto hg8 = load_shared<kWords>(high + row_at[1] + v_at);
          const auto lg = load_shared<kWords>(low + row_at[0] + v_at);
          const auto lg8 = load_shared<kWords>(low + row_at[1] + v_at);
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            unsigned at = lane_at + 2U * j * row_bytes + static_cast<unsigned>(s) * kSize;
            if (swapped) at = swap_halves(at, 7);
            const auto b = load_shared<kWords>(from + at);
            multiply<T>(acc[j], hg, hg8, b);
            multiply<T>(acc[j], lg, lg8, b);
          }
        }
      };
      if (!split_rows) {
        steps(stage + static_cast<unsigned>(u * kUnit) * row_bytes, 0, b_stride);
      } else {
#pragma unroll 1
        for (int r = 0; r < w.rank; r += kStepRanks) {
          stage = stream.take();
          steps(stage, r, min(kStepRanks, round_up(w.rank - r, 32)));
          stream.release();
        }
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (!in_cols || !have[h]) continue;
        const float delta[8] = {acc[0][2 * h], acc[0][2 * h + 1], acc[1][2 * h], acc[1][2 * h + 1],
                                acc[2][2 * h], acc[2][2 * h + 1], acc[3][2 * h], acc[3][2 * h + 1]};
        add_to_row<T>(y[h] + column * size, wide, old[h], delta);
      }
    }
    if (!split_rows) stream.release();
  }
}

// Sends for rows' pieces into L2: of x, what the block's warps will read; of y, what they will add
// to.
template <typename T>
__device__ __forceinline__ void prefetch_rows(const LoraWork& w, int k_begin, int k_end,
                                              int column_begin, int column_end) {
  const LoraOutput& out = w.p.out[w.which];
  const int size = w.p.out_type == LoraType::f32 ? 4 : sizeof(T);
  const int row = threadIdx.x / 2;
  if (row >= w.tile.count) return;
  const std::int64_t at = row_of(w.p, w.tile.first + row);
  if (threadIdx.x % 2 == 0) {
    const int last = min(k_end * kUnit, w.p.in);
    const int first = k_begin * kUnit;
    if (first < last) {
      prefetch_l2(static_cast<const T*>(w.p.x) + at * w.p.x_stride + first,
                  static_cast<unsigned>((last - first) * sizeof(T)));
    }
  } else {
    const int last = min(column_end * kUnit, out.cols);
    const int first = column_begin * kUnit;
    if (first < last) {
      prefetch_l2(static_cast<const std::byte*>(out.data) + (at * out.stride + first) * size,
                  static_cast<unsigned>((last - first) * size));
    }
  }
}

template <typename T, bool kPaged>
__global__ void __launch_bounds__(kLoraThreads, 2)
    fused_lora(const __grid_constant__ LoraParams p, const LoraCut cut) {
  extern __shared__ __align__(128) std::byte shared_bytes[];
  allow_next_kernel();
  const int lane = threadIdx.x % 32;
  int id = blockIdx.x / cut.cluster;
  const int split = id % cut.splits;
  id /= cut.splits;
  const int which = id % p.num_modules;
  const LoraTile tile = find_tile(p, cut.tile_rows, id / p.num_modules);
  LoraEntry entry{};
  if (tile.count > 0) entry = entry_of(p, tile.slot, which);
  if (tile.count <= 0 || entry.rank <= 0) {
    wait_for_previous_kernels();
    return;
  }
  const LoraWork w{p,
                   tile,
                   which,
                   cut.padded_rank > 0 ? cut.padded_rank : entry.rank,
                   static_cast<int>(threadIdx.x / 32),
                   lane / 4,
                   lane % 4,
                   static_cast<int>(blockIdx.x) % cut.cluster,
                   cut.cluster};
  // Every warp's piece of `in` and of the columns.
  const int all_k = (p.in + kUnit - 1) / kUnit;
  const int all_columns = (p.out[which].cols + kUnit - 1) / kUnit;
  const int k_parts = cut.cluster * kLoraWarps;
  const int k_first = w.block * kLoraWarps;
  const LoraRange k(all_k, k_parts, k_first + w.warp);
  const int column_parts = cut.splits * k_parts;
  const int column_first = split * k_parts + k_first;
  const LoraRange columns(all_columns, column_parts, column_first + w.warp);

  const auto shared_at = static_cast<unsigned>(__cvta_generic_to_shared(shared_bytes));
  WeightStream<T, kPaged> stream(p, tile.slot, entry, p.out[which].cols, k, columns, w.rank,
                                 shared_at + static_cast<unsigned>(w.warp) * kRingBytes);
#pragma unroll 1
  for (int i = 0; i < kStages; ++i) stream.send();
  prefetch_rows<T>(w, LoraRange(all_k, k_parts, k_first).begin,
                   LoraRange(all_k, k_parts, k_first + kLoraWarps - 1).end,
                   LoraRange(all_columns, column_parts, column_first).begin,
                   LoraRange(all_columns, column_parts, column_first + kLoraWarps - 1).end);
  const T* x[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = h * 8 + w.g;
    x[h] = row < tile.count ? static_cast<const T*>(p.x) + row_of(p, tile.first + row) * p.x_stride
                            : nullptr;
  }
  wait_for_previous_kernels();

  const int rows = min(cut.tile_rows, p.max_count);
  const LoraShared shared(rows, p.max_rank);
  auto* v = reinterpret_cast<float*>(shared_bytes + shared.v_at);
  auto* partial = reinterpret_cast<float*>(shared_bytes + shared.partial_at);
  const int v_ranks = round_up(w.rank, 8);
#pragma unroll 1
  for (int rank0 = 0; rank0 < v_ranks; rank0 += kPassRanks) {
    const int ranks = min(kPassRanks, v_ranks - rank0);
    if (rank0 > 0) __syncthreads();  // the sums before have been read
    float* own = partial + w.warp * rows * LoraShared::kPartialPitch;
#pragma unroll 1
    for (int r = 0; r < ranks; r += kPairRanks) shrink<T, kPaged>(w, stream, k, x, own + r);
    __syncthreads();
    sum_warps(w, partial, rows, rank0, ranks, v, shared.v_pitch);
  }
  if (w.blocks > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  T* high = reinterpret_cast<T*>(partial);
  T* low = high + rows * shared.high_pitch;
  gather_v<T>(w, v, v_ranks, shared.v_pitch, high, low, shared.high_pitch);
  __syncthreads();
  if (w.blocks > 1) cluster_arrive();
  const auto high_at = static_cast<unsigned>(__cvta_generic_to_shared(high));
  const auto low_at = static_cast<unsigned>(__cvta_generic_to_shared(low));
  if (entry.b_stride == 8) {
    expand<T, 1, kPaged>(w, stream, columns, high_at, low_at, shared.high_pitch, entry.b_stride);
  } else if (entry.b_stride == 16) {
    expand<T, 2, kPaged>(w, stream, columns, high_at, low_at, shared.high_pitch, entry.b_stride);
  } else {
    expand<T, 4, kPaged>(w, stream, columns, high_at, low_at, shared.high_pitch, entry.b_stride);
  }
  if (w.blocks > 1) cluster_wait();  // nobody reads this block's v any more
}

template <typename T, bool kPaged>
cudaError_t launch_fused(const LoraParams& p, const LoraCut& cut, cudaStream_t stream) {
  const int rows = p.max_count < cut.tile_rows ? p.max_count : cut.tile_rows;
  const LoraShared shared(rows, p.max_rank);
  static thread_local int prepared_device = -1;  // the attribute is the device's
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  if (prepared_device != device) {
    int most = 0;
    error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error != cudaSuccess) return error;
    error = cudaFuncSetAttribute(fused_lora<T, kPaged>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 most);
    if (error != cudaSuccess) return error;
    error = cudaFuncSetAttribute(fused_lora<T, kPaged>,
                                 cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error != cudaSuccess && cut.cluster > 8) return error;
    prepared_device = device;
  }
  cudaLaunchAttribute attributes[2] = {};
  unsigned num_attributes = 0;
  if (cut.cluster > 1) {
    attributes[num_attributes].id = cudaLaunchAttributeClusterDimension;
    attributes[num_attributes].val.clusterDim.x = static_cast<unsigned>(cut.cluster);
    attributes[num_attributes].val.clusterDim.y = 1;
    attributes[num_attributes].val.clusterDim.z = 1;
    ++num_attributes;
  }
  if (cut.overlap) {
    attributes[num_attributes].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[num_attributes].val.programmaticStreamSerializationAllowed = 1;
    ++num_attributes;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(tile_bound(p, cut.tile_rows) * p.num_modules *
                                              cut.splits * cut.cluster));
  config.blockDim = dim3(kLoraThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared.bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = num_attributes;
  return cudaLaunchKernelEx(&config, fused_lora<T, kPaged>, p, cut);
}

}  // namespace tandem::cuda
