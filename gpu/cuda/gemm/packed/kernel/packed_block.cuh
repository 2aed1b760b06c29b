// y[t, o] = (y[t, o] +) sum_i x[t, i] w[o, i] (+ bias[o]) for T <= 64 rows t of x and a packed w:
//   w[o, i] = scale[o, g] (code[o, i] - zero[o, g]), g the group of column i,
//   sum_i x w = sum_g scale[o, g] (sum_{i in g} x[t, i] (code[o, i] - zero[o, g])).
// Code minus zero is a small integer (or an e4m3 number), which bf16 and f16 hold exactly, so
// nothing is rounded but float sums. The bound is reading the codes.
//
// Grid: one block per multiprocessor, or clusters of 2 or 4, each with an equal range of w's rows.
// The blocks of a cluster share the columns out: all blocks read x from L2, and codes of 4 bits are
// so few bytes that x of 16 rows would be most of what a block reads. Within a block, one producer
// thread orders the copies of stages into a ring in shared memory: codes, scales, zeros and x.
// Consumer warps form a grid: each takes some rows of w and some columns of every stage. w is the
// tensor core's row operand, made in registers from codes that lie as that operand wants them
// (gpu/cuda/packed/layout.h), x, padded to eights, the column one. Sums of 32, 64 or 128 columns
// are multiplied by a scale and added to the sums of all columns. At the end those of the block's
// warps and of the cluster's blocks meet in shared memory, in a fixed order.
//
// Weights never change, so the ring is filled with them before earlier kernels have ended; x and y
// are read after that.
//
// On one H200, us of q/k/v and o of llama-2-7b (bounds: 4 bits by 128 6.1 and 2.0, FP8 11.8
// and 4.0):
//                                        4 bits, 1 row  64 rows       FP8, 1 row   64 rows
//                                          qkv     o    qkv     o      qkv     o    qkv     o
//   this                                  14.1   6.1   17.7  12.2     13.5   7.9   20.0  13.3
//   FP8 codes multiplied one by one, y read behind the products
//                                         14.4   6.3   17.6  12.2     13.8   8.3   20.0  13.3
//   64 rows by products of 16 x 8 x 16                 47.5  32.8                  47.9  31.3
//   32 rows of w in each warp                    6.8                         8.5
//   shares by 64-bit divisions, results one element after another
//                                         15.1   7.9   20.5  16.0     15.7   9.9   24.2  16.8
//   x stays in shared memory while w's groups of rows pass by
//                                                      34.8                        41.5
//   half of the shared memory and eight warps, so that two kernels are resident
//                                         12.4   5.3                  14.2   6.3
// The last is faster alone and slower in a step (7B, FP8, one row: 2.27 to 2.58 ms): there a
// kernel's ring is full when x arrives, whatever is resident, and eight warps take longer to
// multiply it. Asking for the largest shared memory in every launch changed nothing.
// A block's clock (o, FP8, 16 rows; thousands of cycles, two changes ago): 1 until barriers exist,
// 2 until all of the ring is ordered, 9 until earlier kernels have ended and x is ordered, 10 until
// the first stage is there, 17 until all is multiplied, 21 at the end. So a step's floor is not the
// memory's alone: from the moment that x is there, 200 instructions for each 16 x 128 codes of FP8,
// 112 of them to decode, issue once in three cycles (ncu, o at one row: 4,700 for a scheduler).
#pragma once

#include <cstdint>

#include "gpu/cuda/base/cluster.cuh"
#include "gpu/cuda/base/launch_order.cuh"
#include "gpu/cuda/gemm/packed/kernel/packed_finish.cuh"
#include "gpu/cuda/gemm/packed/kernel/packed_fragment.cuh"
#include "gpu/cuda/gemm/packed/kernel/packed_places.h"
#include "gpu/cuda/gemm/packed/kernel/packed_share.cuh"

namespace tandem::cuda {

template <int kRowTiles, int kColTiles>
constexpr int kPackedThreads = 32 * (1 + most_packed_warps(kRowTiles, kColTiles));

// Scales are read as words of 4 bytes, at once and without a branch: ScaleReader takes a number out
// of its word later.
struct ScaleReader {
  std::uint32_t selector;  // of the word's bytes, those of a number of 4 or, shifted up, 2 bytes
  bool is_half;
  float factor, summand;

  // `number`: an index of a scale of the thread; the others are a multiple of 8 further.
  __device__ ScaleReader(const PackedParams& p, std::uint32_t number)
      : selector(p.scale_bytes == 4 ? 0x3210
                 : number % 2 == 0  ? 0x1044
                                    : 0x3244),
        is_half(p.scale_dtype == DType::f16),
        factor(p.factor),
        summand(p.summand) {}
  static __device__ std::uint32_t load(const PackedParams& p, std::uint32_t stage,
                                       std::uint32_t number) {
    const std::uint32_t at = stage + static_cast<unsigned>(p.plan.scales) +
                             number * static_cast<unsigned>(p.scale_bytes);
    std::uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at & ~3U) : "memory");
    return word;
  }
  __device__ float scale_of(std::uint32_t word) const {
    const std::uint32_t bits = __byte_perm(word, 0, selector);
    const float half = __half2float(__ushort_as_half(static_cast<std::uint16_t>(bits >> 16)));
    return (is_half ? half : __uint_as_float(bits)) * factor + summand;
  }
};

__device__ __forceinline__ int load_byte(std::uint32_t address) {
  unsigned value;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return static_cast<int>(value);
}

__device__ __forceinline__ void meet(int threads) {
  asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

// Computes the part of one block. `multiply(places, column_warp, stage, table, sums)`: adds a
// warp's part of a stage to its sums [kRowTiles][kColTiles][4].
template <typename Codes, int kRowTiles, int kColTiles, int kUnits, typename Multiply>
__device__ __forceinline__ void multiply_block(const PackedMaps& maps, const PackedParams& p,
                                               Multiply&& multiply) {
  extern __shared__ std::byte unaligned[];
  std::byte* const shared = unaligned + (0U - shared_address(unaligned)) % kPackedAlignment;
  const std::uint32_t full = shared_address(shared);
  const std::uint32_t empty = full + 8 * kPackedMaxStages;
  const std::uint32_t sums_full = empty + 8 * kPackedMaxStages;
  const std::uint32_t sums_read = sums_full + 8;
  const PackedPlan& plan = p.plan;
  const std::uint32_t table = full + kPackedBarrierBytes;
  const std::uint32_t ring = table + static_cast<unsigned>(plan.table_bytes);
  auto* const block_sums =
      reinterpret_cast<float*>(shared + kPackedBarrierBytes + plan.table_bytes + plan.sums);
  const int thread = static_cast<int>(threadIdx.x);
  // Uniform within a warp, which products of warpgroups rely on.
  const int warp = __shfl_sync(0xffffffffU, thread / 32, 0);
  const int lane = thread % 32;
  const int consumers = plan.row_warps * plan.column_warps;
  const PackedShare share(p);

  allow_next_kernel();
  if (thread == 0) {
    tensor_prefetch(&maps.w);
    tensor_prefetch(&maps.x);
#pragma unroll 1
    for (int s = 0; s < plan.stages; ++s) {
      barrier_init(full + 8U * static_cast<unsigned>(s), 1);
      barrier_init(empty + 8U * static_cast<unsigned>(s), static_cast<unsigned>(consumers));
    }
    for (const std::uint32_t barrier : {sums_full, sums_read}) {
      barrier_init(barrier, static_cast<unsigned>(plan.cluster));
    }
    barrier_init_fence();
  }
  if constexpr (Codes::kParts > 1) {
    using Pair = Vec<typename Codes::Element, 2>;
    Codes::fill(p.codebook, reinterpret_cast<Pair*>(shared + kPackedBarrierBytes), thread,
                static_cast<int>(blockDim.x));
  }
  __syncthreads();
  if (plan.cluster > 1) cluster_arrive_relaxed();
  if (warp == consumers) {
    if (lane == 0) produce(p, maps, share, full, empty, ring);
    __syncwarp();
    if (plan.cluster > 1) cluster_wait();
    return;
  }
  // Tells all blocks of the cluster; a barrier of the whole cluster would wait for producers.
  const auto tell = [&](std::uint32_t barrier) {
    meet(consumers * 32);
    if (thread < plan.cluster) cluster_arrive_at(cluster_address(barrier, thread));
  };

  const int row_warp = warp % plan.row_warps;
  const int column_warp = warp / plan.row_warps;
  int stage = 0;
  std::uint32_t round = 0;
  for (int group = 0; group < share.groups; ++group) {
    const int first = share.group_begin(group);
    const PackedPlaces places(plan, Codes::kBits, p.swiglu, 4 / kUnits, row_warp, column_warp, lane,
                              first, first + p.out);
    using Element = typename Codes::Element;
    SlotNumbers numbers;
    if (thread < plan.slots()) numbers.load<Element>(p, share, group, thread);
    // The first stage has x, which earlier kernels wrote, so y's old values cost no further wait.
    wait_for_previous_kernels();
    PackedFinish<Element> results(p, share, group, thread, consumers * 32);
    results.load_old(p, first);
    float sums[kRowTiles][kColTiles][4] = {};
#pragma unroll 1
    for (int chunk = 0; chunk < share.chunks; ++chunk) {
      barrier_wait(full + 8U * static_cast<unsigned>(stage), round & 1);
      multiply(places, column_warp, ring + static_cast<unsigned>(stage * plan.stage_bytes),
               table + static_cast<unsigned>(lane * 4), sums);
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + 8U * static_cast<unsigned>(stage));
      if (++stage == plan.stages) stage = 0, ++round;
    }
    meet(consumers * 32);  // all stages have been read, and the sums of the group before
    if (plan.cluster > 1 && group > 0) {
      cluster_barrier_wait(sums_read, static_cast<unsigned>(group - 1) & 1);
    }
    const int pitch = plan.sum_pitch();
    float* const mine = block_sums + (column_warp * 8 * kColTiles + lane % 4 * 2) * pitch +
                        row_warp * 16 * kRowTiles + row_of_lane(lane);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int c = 0; c < kColTiles; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          mine[(8 * c + i % 2) * pitch + r * 16 + i / 2 * 8] = sums[r][c][i];
        }
      }
    }
    if (thread < plan.slots()) {
      block_sums[plan.sum_count() + thread] = numbers.scale;
      block_sums[plan.sum_count() + plan.slots() + thread] = numbers.bias;
    }
    if (plan.cluster > 1) {
      if (group == 0) cluster_wait();  // the other blocks' barriers exist
      tell(sums_full);
      cluster_barrier_wait(sums_full, static_cast<unsigned>(group) & 1);
    } else {
      meet(consumers * 32);
    }
    results.run(p, first, block_sums);
    if (plan.cluster > 1) tell(sums_read);
  }
  // A block's shared memory lives until all have read it.
  if (plan.cluster > 1)
    cluster_barrier_wait(sums_read, static_cast<unsigned>(share.groups - 1) & 1);
}

}  // namespace tandem::cuda
