// y[t, o] = (y[t, o] +) sum_i x[t, i] w[o, i] (+ bias[o]) for T <= 64 rows t of x and a packed w:
//   w[o, i] = scale[o, g] (code[o, i] - zero[o, g]), g the group of column i,
//   sum_i x w = sum_g scale[o, g] (sum_{i in g} x[t, i] (code[o, i] - zero[o, g])).
// Code minus zero is a small integer (or an e4m3 number), which bf16 and f16 hold exactly, so
// nothing is rounded but float sums. Bound by reading the codes.
//
// Grid: one block per multiprocessor, or clusters of 2 or 4, each with an equal range of w's rows.
// The blocks of a cluster share the columns out: all blocks read x from L2, and codes of 4 bits are
// so few bytes that x of 16 rows would be most of what a block reads. Within a block, one producer
// thread orders the copies of stages into a ring in shared memory: codes, scales, zeros and x of
// 128 columns times column_warps. Consumer warps form a grid: each takes 32 rows of w and one slice
// of 128 columns of every stage. w is the tensor core's 16-row operand, made in registers from
// codes that lie as that operand wants them (gpu/cuda/packed/layout.h), x, padded to eights, the
// 8-column one. Sums of 32, 64 or 128 columns are multiplied by a scale and added to the sums of
// all columns. At the end those of the block's warps and of the cluster's blocks meet in shared
// memory, in a fixed order.
//
// Per 16 rows and 32 columns of 4 bits and a column tile of x: 22 instructions for the codes, two
// products, one load of x, and four additions per scale.
//
// Weights never change, so the ring is filled with them before earlier kernels have ended; x and y
// are read after that.
#pragma once

#include <cstdint>

#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/gemm/packed/packed_finish.cuh"
#include "gpu/cuda/gemm/packed/packed_fragment.cuh"
#include "gpu/cuda/gemm/packed/packed_places.h"
#include "gpu/cuda/gemm/packed/packed_share.cuh"

namespace tandem::cuda {

template <int kColTiles>
constexpr int kPackedThreads = 32 * (1 + (kColTiles == 8 ? kPackedMaxWarpsOf64 : kPackedMaxWarps));

__device__ __forceinline__ float load_scale(std::uint32_t address, DType dtype) {
  if (dtype == DType::f32) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
    return value;
  }
  std::uint16_t bits;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(address) : "memory");
  return dtype == DType::f16 ? __half2float(__ushort_as_half(bits))
                             : __uint_as_float(static_cast<unsigned>(bits) << 16);
}
__device__ __forceinline__ int load_byte(std::uint32_t address) {
  unsigned value;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return static_cast<int>(value);
}

// Multiplies a warp's slice of a stage. kUnits: units of 32 columns that share a scale.
template <typename Codes, int kColTiles, int kUnits>
__device__ __forceinline__ void multiply_slice(const PackedParams& p, const PackedPlaces& places,
                                               std::uint32_t stage, std::uint32_t table,
                                               float (&sums)[2][kColTiles][4]) {
  using Element = typename Codes::Element;
  // Eight tiles at once would exceed a thread's registers; it decodes the codes twice instead, as
  // the tensor cores are the bound.
  constexpr int kAtOnce = kColTiles < 4 ? kColTiles : 4;
  constexpr int kUnitsOfPiece = Codes::kBits == 4 ? 4 : 2;
  constexpr int kEight = 8 * kPackedLineBytes;
  const auto number_of = [&](int r, int h, int g) {
    return places.number[r] + static_cast<unsigned>(8 * h + g * p.plan.scale_rows);
  };
  uint4 pieces[2][2];
#pragma unroll
  for (int g = 0; g < 4 / kUnits; ++g) {
    typename Codes::Zero zeros[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        int zero = p.zero;
        if (Codes::kHasZeros && p.zeros) {
          zero += load_byte(stage + static_cast<unsigned>(p.plan.zeros) + number_of(r, h, g));
        }
        zeros[r][h] = Codes::zero_of(zero);
      }
    }
#pragma unroll
    for (int first = 0; first < kColTiles; first += kAtOnce) {
      float part[2][kAtOnce][4];
#pragma unroll
      for (int v = 0; v < kUnits; ++v) {
        const int u = g * kUnits + v;
        if (u % kUnitsOfPiece == 0) {
          const auto flip = static_cast<unsigned>(u / kUnitsOfPiece * 64);
#pragma unroll
          for (int r = 0; r < 2; ++r) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              const auto eight = static_cast<unsigned>(h * kEight);
              pieces[r][h] = load_shared((stage + places.w[r] + eight) ^ flip);
            }
          }
        }
        std::uint32_t a[2][2][Codes::kParts][4];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            Codes::fragment(pieces[r][h], u, zeros[r][h], table, a[r][h]);
          }
        }
        const std::uint32_t x = (stage + places.x[u / 2]) ^ static_cast<unsigned>(u % 2 * 64);
#pragma unroll
        for (int c = 0; c < kAtOnce; ++c) {
          std::uint32_t b[4];
          load_matrices(b, x + static_cast<unsigned>((first + c) * kEight));
#pragma unroll
          for (int i = 0; i < 2 * Codes::kParts; ++i) {
            const int s = i % 2;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              const auto& low = a[r][0][i / 2];
              const auto& high = a[r][1][i / 2];
              if (v == 0 && i == 0) {
                first_16x8x16<Element>(part[r][c], low[0], high[0], low[1], high[1], b[0], b[1]);
              } else {
                mma_16x8x16<Element>(part[r][c], low[2 * s], high[2 * s], low[2 * s + 1],
                                     high[2 * s + 1], b[2 * s], b[2 * s + 1]);
              }
            }
          }
        }
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float scale = 1;
          if (p.row_scales == nullptr) {
            const auto at = static_cast<unsigned>(p.plan.scales) +
                            number_of(r, h, g) * static_cast<unsigned>(p.scale_bytes);
            scale = load_scale(stage + at, p.scale_dtype) * p.factor + p.summand;
          }
#pragma unroll
          for (int c = 0; c < kAtOnce; ++c) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              sums[r][first + c][2 * h + e] += scale * part[r][c][2 * h + e];
            }
          }
        }
      }
    }
  }
}

__device__ __forceinline__ void meet(int threads) {
  asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

template <typename Codes, int kColTiles, int kUnits>
__global__ void __launch_bounds__(kPackedThreads<kColTiles>, 1)
    packed_gemm(const __grid_constant__ PackedMaps maps, const __grid_constant__ PackedParams p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  extern __shared__ std::byte unaligned[];
  std::byte* const shared = unaligned + (0U - shared_address(unaligned)) % kPackedAlignment;
  const std::uint32_t full = shared_address(shared);
  const std::uint32_t empty = full + 8 * kPackedMaxStages;
  const PackedPlan& plan = p.plan;
  const std::uint32_t table = full + kPackedBarrierBytes;
  const std::uint32_t ring = table + static_cast<unsigned>(plan.table_bytes);
  auto* const block_sums =
      reinterpret_cast<float*>(shared + kPackedBarrierBytes + plan.table_bytes + plan.sums);
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const int consumers = plan.row_warps * plan.column_warps;
  const PackedShare share(p);

  allow_next_kernel();
  if (thread == 0) {
    tensor_prefetch(&maps.w);
    tensor_prefetch(&maps.x);
    for (int s = 0; s < plan.stages; ++s) {
      barrier_init(full + 8U * static_cast<unsigned>(s), 1);
      barrier_init(empty + 8U * static_cast<unsigned>(s), static_cast<unsigned>(consumers));
    }
    barrier_init_fence();
  }
  if constexpr (Codes::kParts > 1) {
    using Pair = Vec<typename Codes::Element, 2>;
    Codes::fill(p.codebook, reinterpret_cast<Pair*>(shared + kPackedBarrierBytes), thread,
                static_cast<int>(blockDim.x));
  }
  __syncthreads();
  if (warp == consumers) {
    if (lane == 0) produce(p, maps, share, full, empty, ring);
    return;  // a cluster's barrier does not wait for threads that have ended
  }

  const int row_warp = warp % plan.row_warps;
  const int slice = warp / plan.row_warps;
  const PackedPlaces places(plan, Codes::kBits, p.swiglu, 4 / kUnits, row_warp, slice, lane);
  int stage = 0;
  std::uint32_t round = 0;
  for (int group = 0; group < share.groups; ++group) {
    float sums[2][kColTiles][4] = {};
#pragma unroll 1
    for (int chunk = 0; chunk < share.chunks; ++chunk) {
      barrier_wait(full + 8U * static_cast<unsigned>(stage), round & 1);
      multiply_slice<Codes, kColTiles, kUnits>(
          p, places, ring + static_cast<unsigned>(stage * plan.stage_bytes),
          table + static_cast<unsigned>(lane * 4), sums);
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + 8U * static_cast<unsigned>(stage));
      if (++stage == plan.stages) stage = 0, ++round;
    }
    meet(consumers * 32);  // all stages have been read, and the sums of the group before
    const int pitch = plan.sum_pitch();
    float* const mine = block_sums + (slice * 8 * kColTiles + lane % 4 * 2) * pitch +
                        row_warp * 32 + row_of_lane(lane);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int c = 0; c < kColTiles; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          mine[(8 * c + i % 2) * pitch + r * 16 + i / 2 * 8] = sums[r][c][i];
        }
      }
    }
    if (plan.cluster > 1) {
      cluster_arrive();
      cluster_wait();
    } else {
      meet(consumers * 32);
    }
    wait_for_previous_kernels();
    finish<typename Codes::Element>(p, share, group, block_sums, thread, consumers * 32);
    if (plan.cluster > 1) {  // a block's shared memory lives until all have read it
      cluster_arrive();
      cluster_wait();
    }
  }
#endif
}

}  // namespace tandem::cuda
