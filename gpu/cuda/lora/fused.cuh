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
// Bound by reading A and B, each once per tile. Weights go straight from memory to registers, 16
// bytes a thread; there is no reuse between warps that shared memory could serve. B (which does not
// depend on v) and y are sent for, into L2, before the shrink begins. Rows of the tile are the
// products' M, so that weights are read at a granularity of eight rows of A or B only.
#pragma once

#include "gpu/cuda/base/launch_order.cuh"
#include "gpu/cuda/lora/mma.cuh"
#include "gpu/cuda/lora/tile.cuh"

namespace tandem::cuda {

inline constexpr int kLoraWarps = 8;
inline constexpr int kLoraThreads = 32 * kLoraWarps;

__host__ __device__ constexpr int round_up(int n, int to) {
  return (n + to - 1) / to * to;
}

// Shared memory of a block, in bytes from its start: the block's own v, which the cluster reads,
// then room for the warps' partial sums of up to 64 ranks, later for v as high and low.
struct LoraShared {
  int rank;        // ranks of v, a multiple of 8
  int high_pitch;  // elements from row to row of v as high or low: an odd multiple of 32
  int partial_at;
  int bytes;

  __host__ __device__ LoraShared(int tile_rows, int max_rank) {
    rank = round_up(max_rank, 8);
    high_pitch = 32 * ((round_up(rank, 32) / 32) | 1);
    partial_at = tile_rows * rank * 4;
    const int widest = rank <= 8 ? 8 : rank <= 16 ? 16 : rank <= 32 ? 32 : 64;
    const int partial = kLoraWarps * tile_rows * (widest + 8) * 4;
    const int halves = 2 * tile_rows * high_pitch * 2;
    bytes = partial_at + (partial > halves ? partial : halves);
  }
};

// What a block knows about its work.
struct LoraWork {
  const LoraParams& p;
  WeightBytes bytes;
  LoraEntry entry;
  LoraTile tile;
  int which;   // of the modules
  int rank;    // of the loops: the adapter's, or what it is padded to
  int warp;    // of the block
  int g, t;    // of the lane, see mma.cuh
  int block;   // of the cluster
  int blocks;  // in the cluster
};

// The pieces of [0, total) in `parts` nearly equal parts.
struct LoraRange {
  int begin;
  int end;
  __device__ __forceinline__ LoraRange(int total, int parts, int part) {
    const int each = total / parts;
    const int more = total % parts;
    begin = part * each + min(part, more);
    end = begin + each + (part < more ? 1 : 0);
  }
};

// Ranks [rank0, rank0 + 8 kTiles) of v over this warp's piece of `in`, for every row of the tile,
// into partial[row][8 kTiles + 8]. kUnits units of 32 elements are in flight.
template <typename T, int kM, int kTiles, int kUnits>
__device__ __forceinline__ void shrink(const LoraWork& w, const T* const (&x)[kM][2], int rank0,
                                       float* partial) {
  float acc[kM][kTiles][4] = {};
  const int in = w.p.in;
  const LoraRange units((in + 31) / 32, w.blocks * kLoraWarps, w.block * kLoraWarps + w.warp);
  for (int u = units.begin; u < units.end; u += kUnits) {
    Words<4> weights[kUnits][kTiles];
    Words<4> rows[kUnits][kM][2];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int k = (u + i) * 32 + w.t * 8;
      const bool inside = u + i < units.end && k < in;
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const int r = rank0 + j * 8 + w.g;
        const bool ok = inside && r < w.entry.rank;
        const std::uint64_t at =
            w.entry.a +
            (static_cast<std::uint64_t>(r) * static_cast<unsigned>(in) + static_cast<unsigned>(k)) *
                sizeof(T);
        weights[i][j] = load_weights<4>(w.bytes.at(at, ok), ok);
      }
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        rows[i][m][0] = load_activations(x[m][0] + k, inside && x[m][0] != nullptr);
        rows[i][m][1] = load_activations(x[m][1] + k, inside && x[m][1] != nullptr);
      }
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          multiply<T>(acc[m][j], rows[i][m][0], rows[i][m][1], weights[i][j]);
        }
      }
    }
  }
  constexpr int kPitch = 8 * kTiles + 8;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = m * 16 + h * 8 + w.g;
      if (row >= w.tile.count) continue;
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        *reinterpret_cast<float2*>(partial + row * kPitch + j * 8 + 2 * w.t) =
            make_float2(acc[m][j][2 * h], acc[m][j][2 * h + 1]);
      }
    }
  }
}

// shrink() by all warps, and their sum in v[row][rank0 ..], rows v_pitch apart.
template <typename T, int kM, int kTiles, int kUnits>
__device__ __forceinline__ void shrink_block(const LoraWork& w, const T* const (&x)[kM][2],
                                             int rank0, float* partial, float* v, int v_pitch) {
  constexpr int kPitch = 8 * kTiles + 8;
  constexpr int kRows = kM * 16;
  if (rank0 > 0) __syncthreads();  // the sums before have been read
  shrink<T, kM, kTiles, kUnits>(w, x, rank0, partial + w.warp * kRows * kPitch);
  __syncthreads();
  constexpr int kQuads = 2 * kTiles;
  for (int i = threadIdx.x; i < w.tile.count * kQuads; i += kLoraThreads) {
    const int row = i / kQuads;
    const int column = i % kQuads * 4;
    if (rank0 + column >= v_pitch) continue;
    const float* from = partial + row * kPitch + column;
    float4 sum = *reinterpret_cast<const float4*>(from);
#pragma unroll
    for (int warp = 1; warp < kLoraWarps; ++warp) {
      const float4 next = *reinterpret_cast<const float4*>(from + warp * kRows * kPitch);
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

// The sum of all blocks' v as high and low, ranks past v_pitch zero up to a multiple of 32.
template <typename T>
__device__ __forceinline__ void gather_v(const LoraWork& w, const float* v, int v_pitch, T* high,
                                         T* low, int pitch) {
  const int quads = round_up(v_pitch, 32) / 4;
  for (int i = threadIdx.x; i < w.tile.count * quads; i += kLoraThreads) {
    const int row = i / quads;
    const int column = i % quads * 4;
    float4 sum{};
    if (column < v_pitch) {
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

// Adds eight neighbouring columns of one row to y: delta[2j], delta[2j + 1] from product j.
template <typename T>
__device__ __forceinline__ void add_to_row(void* row, LoraType type, int column,
                                           const float (&delta)[8]) {
  if (type == LoraType::f32) {
    float4* y = reinterpret_cast<float4*>(static_cast<float*>(row) + column);
    float4 first = y[0];
    float4 second = y[1];
    first.x += delta[0], first.y += delta[1], first.z += delta[2], first.w += delta[3];
    second.x += delta[4], second.y += delta[5], second.z += delta[6], second.w += delta[7];
    y[0] = first;
    y[1] = second;
    return;
  }
  uint4* y = reinterpret_cast<uint4*>(static_cast<T*>(row) + column);
  const uint4 old = *y;
  const unsigned words[4] = {old.x, old.y, old.z, old.w};
  unsigned sums[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 value = unpack(T(), words[i]);
    sums[i] = pack(T(), value.x + delta[2 * i], value.y + delta[2 * i + 1]);
  }
  *y = make_uint4(sums[0], sums[1], sums[2], sums[3]);
}

// This warp's columns of y. A unit is 32 columns: four products of eight columns, so chosen that a
// thread's results are eight neighbours (column 8t + 2j + c of the unit is column 2t + c of product
// j). A step is 4 x 2 kWords ranks, kSteps steps and kUnits units are in flight.
template <typename T, int kM, int kWords, int kUnits, int kSteps>
struct Expand {
  static constexpr int kStepRanks = 8 * kWords;
  const LoraWork& w;
  LoraRange units;
  int unit;
  int step = 0;
  Words<kWords> weights[kSteps][kUnits][4];

  __device__ __forceinline__ Expand(const LoraWork& work, const LoraRange& all)
      : w(work), units(all), unit(all.begin) {}

  __device__ __forceinline__ void load() {
    const int cols = w.p.out[w.which].cols;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int r = (step + s) * kStepRanks + w.t * 2 * kWords;
      const bool in_rank = r < w.entry.rank;
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int o = (unit + u) * 32 + (w.g / 2) * 8 + 2 * j + w.g % 2;
          const bool ok = in_rank && unit + u < units.end && o < cols;
          const std::uint64_t at =
              w.entry.b + (static_cast<std::uint64_t>(o) * static_cast<unsigned>(w.entry.b_stride) +
                           static_cast<unsigned>(r)) *
                              sizeof(T);
          weights[s][u][j] = load_weights<kWords>(w.bytes.at(at, ok), ok);
        }
      }
    }
  }

  __device__ __forceinline__ void run(const T* high, const T* low, int pitch) {
    const LoraOutput& out = w.p.out[w.which];
    const int steps = (w.rank + kStepRanks - 1) / kStepRanks;
    while (unit < units.end) {
      float acc[kUnits][kM][4][4] = {};
      const int first_unit = unit;
      for (step = 0; step < steps;) {
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
          if (kSteps > 1 && step + s >= steps) break;
#pragma unroll
          for (int m = 0; m < kM; ++m) {
            const int at = (m * 16 + w.g) * pitch + (step + s) * kStepRanks + w.t * 2 * kWords;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const T* from = (half == 0 ? high : low) + at;
              const auto g = *reinterpret_cast<const Aligned*>(from);
              const auto g8 = *reinterpret_cast<const Aligned*>(from + 8 * pitch);
#pragma unroll
              for (int u = 0; u < kUnits; ++u) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                  multiply<T>(acc[u][m][j], g.words, g8.words, weights[s][u][j]);
                }
              }
            }
          }
        }
        step += kSteps;
        if (step < steps) load();
      }
      unit += kUnits;
      step = 0;
      if (unit < units.end) load();  // on its way while the results are stored
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const int column = (first_unit + u) * 32 + 8 * w.t;
        if (first_unit + u >= units.end || column >= out.cols) continue;
#pragma unroll
        for (int m = 0; m < kM; ++m) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int row = m * 16 + h * 8 + w.g;
            if (row >= w.tile.count) continue;
            const auto(&a)[4][4] = acc[u][m];
            const float delta[8] = {a[0][2 * h], a[0][2 * h + 1], a[1][2 * h], a[1][2 * h + 1],
                                    a[2][2 * h], a[2][2 * h + 1], a[3][2 * h], a[3][2 * h + 1]};
            const std::int64_t size = w.p.out_type == LoraType::f32 ? 4 : sizeof(T);
            std::byte* y = static_cast<std::byte*>(out.data) +
                           row_of(w.p, w.tile.first + row) * out.stride * size;
            add_to_row<T>(y, w.p.out_type, column, delta);
          }
        }
      }
    }
  }

  struct alignas(4 * kWords) Aligned {
    Words<kWords> words;
  };
};

// Sends for what the block will read after the shrink: its rows of B and its piece of y.
template <typename T>
__device__ __forceinline__ void prefetch_expand(const LoraWork& w, int first_unit, int last_unit) {
  const LoraOutput& out = w.p.out[w.which];
  const int first = first_unit * 32;
  const int last = min(last_unit * 32, out.cols);
  if (first >= last) return;
  const unsigned row_bytes = static_cast<unsigned>(w.entry.b_stride) * sizeof(T);
  const std::uint64_t begin = w.entry.b + static_cast<std::uint64_t>(first) * row_bytes;
  const std::uint64_t end = w.entry.b + static_cast<std::uint64_t>(last) * row_bytes;
  // In pieces of at most 16 KiB, each within a chunk.
  const std::uint64_t piece =
      w.bytes.ids != nullptr && w.bytes.mask < 16383 ? w.bytes.mask + 1 : 16384;
  for (std::uint64_t at = begin / piece * piece + threadIdx.x * piece; at < end;
       at += kLoraThreads * piece) {
    const std::uint64_t from = at > begin ? at : begin;
    const std::uint64_t to = at + piece < end ? at + piece : end;
    prefetch_l2(w.bytes.at(from, true), static_cast<unsigned>(to - from));
  }
  const int size = w.p.out_type == LoraType::f32 ? 4 : sizeof(T);
  for (int row = threadIdx.x; row < w.tile.count; row += kLoraThreads) {
    const std::byte* y = static_cast<const std::byte*>(out.data) +
                         (row_of(w.p, w.tile.first + row) * out.stride + first) * size;
    prefetch_l2(y, static_cast<unsigned>((last - first) * size));
  }
}

template <typename T, int kM, int kWords, int kUnits, int kSteps>
__device__ __forceinline__ void finish(const LoraWork& w, const LoraRange& units, float* v,
                                       int v_pitch, std::byte* partial) {
  Expand<T, kM, kWords, kUnits, kSteps> expand(w, units);
  expand.load();  // travels while the cluster meets
  const LoraShared shared(kM * 16, w.rank);
  T* high = reinterpret_cast<T*>(partial);
  T* low = high + kM * 16 * shared.high_pitch;
  if (w.blocks > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  gather_v<T>(w, v, v_pitch, high, low, shared.high_pitch);
  __syncthreads();
  if (w.blocks > 1) cluster_arrive();
  expand.run(high, low, shared.high_pitch);
  if (w.blocks > 1) cluster_wait();  // nobody reads this block's v any more
}

template <typename T, int kM>
__global__ void __launch_bounds__(kLoraThreads, kM == 1 ? 2 : 1)
    fused_lora(const __grid_constant__ LoraParams p, const LoraCut cut) {
  extern __shared__ __align__(16) std::byte shared_bytes[];
  allow_next_kernel();
  constexpr int kRows = kM * 16;
  const int lane = threadIdx.x % 32;
  int id = blockIdx.x / cut.cluster;
  const int split = id % cut.splits;
  id /= cut.splits;
  const int which = id % p.num_modules;
  const LoraTile tile = find_tile(p, kRows, id / p.num_modules);
  LoraEntry entry{};
  if (tile.count > 0) entry = entry_of(p, tile.slot, which);
  if (tile.count <= 0 || entry.rank <= 0) {
    wait_for_previous_kernels();
    return;
  }
  const LoraWork w{p,
                   WeightBytes(p, tile.slot),
                   entry,
                   tile,
                   which,
                   cut.padded_rank > 0 ? cut.padded_rank : entry.rank,
                   static_cast<int>(threadIdx.x / 32),
                   lane / 4,
                   lane % 4,
                   static_cast<int>(blockIdx.x) % cut.cluster,
                   cut.cluster};
  const int all_units = (p.out[which].cols + 31) / 32;
  const int warps = cut.splits * cut.cluster * kLoraWarps;
  const int first_warp = (split * cut.cluster + w.block) * kLoraWarps;
  const LoraRange units(all_units, warps, first_warp + w.warp);
  prefetch_expand<T>(w, LoraRange(all_units, warps, first_warp).begin,
                     LoraRange(all_units, warps, first_warp + kLoraWarps - 1).end);
  const T* x[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = m * 16 + h * 8 + w.g;
      x[m][h] = row < tile.count
                    ? static_cast<const T*>(p.x) + row_of(p, tile.first + row) * p.x_stride
                    : nullptr;
    }
  }
  wait_for_previous_kernels();

  const LoraShared shared(kRows, w.rank);
  auto* v = reinterpret_cast<float*>(shared_bytes);
  std::byte* rest = shared_bytes + shared.partial_at;
  auto* partial = reinterpret_cast<float*>(rest);
  const int pitch = shared.rank;
  constexpr int kFew = kM == 1 ? 2 : 1;
  for (int rank0 = 0; rank0 < pitch;) {
    const int left = pitch - rank0;
    if (left > 32) {
      shrink_block<T, kM, 8, kFew>(w, x, rank0, partial, v, pitch);
      rank0 += 64;
    } else if (left > 16) {
      shrink_block<T, kM, 4, 2 * kFew>(w, x, rank0, partial, v, pitch);
      rank0 += 32;
    } else if (left > 8) {
      shrink_block<T, kM, 2, 2 * kFew>(w, x, rank0, partial, v, pitch);
      rank0 += 16;
    } else {
      shrink_block<T, kM, 1, 2 * kFew>(w, x, rank0, partial, v, pitch);
      rank0 += 8;
    }
  }
  if (w.rank <= 8) {
    finish<T, kM, 1, kM == 1 ? 4 : 1, 1>(w, units, v, pitch, rest);
  } else if (w.rank <= 16) {
    finish<T, kM, 2, kM == 1 ? 2 : 1, 1>(w, units, v, pitch, rest);
  } else {
    finish<T, kM, 4, 1, 2>(w, units, v, pitch, rest);
  }
}

template <typename T, int kM>
cudaError_t launch_fused(const LoraParams& p, const LoraCut& cut, cudaStream_t stream) {
  constexpr int kRows = kM * 16;
  const LoraShared shared(kRows, p.max_rank);
  static thread_local int prepared_device = -1;  // the attribute is the device's
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  if (prepared_device != device) {
    int most = 0;
    error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error != cudaSuccess) return error;
    error =
        cudaFuncSetAttribute(fused_lora<T, kM>, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    if (error != cudaSuccess) return error;
    error =
        cudaFuncSetAttribute(fused_lora<T, kM>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
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
  config.gridDim =
      dim3(static_cast<unsigned>(tile_bound(p, kRows) * p.num_modules * cut.splits * cut.cluster));
  config.blockDim = dim3(kLoraThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared.bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = num_attributes;
  return cudaLaunchKernelEx(&config, fused_lora<T, kM>, p, cut);
}

}  // namespace tandem::cuda
