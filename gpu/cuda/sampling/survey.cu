// The first pass over the logits. Finds for every tile of kSampleTile tokens of every row: its best
// token, the sum of its weights, its winner of the race of clocks, and the values that log
// probabilities need from the model's own logits. Weights are relative to the tile's best logit, as
// the row's is not known here.
//
// Grid: (tiles, rows), 256 threads of 16 logits each. Bound by reading the logits once, or by the
// race's arithmetic (about 50 integer operations per token) when a large batch is drawn.
#include <cmath>

#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/sampling/block.cuh"
#include "gpu/cuda/sampling/order.cuh"
#include "gpu/cuda/sampling/penalties.cuh"
#include "gpu/cuda/sampling/race.cuh"
#include "gpu/cuda/sampling/row_kind.cuh"
#include "gpu/cuda/sampling/sampling_kernels.h"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kVectors = kSampleTile / (4 * kThreads);
constexpr int kItems = 4 * kVectors;  // logits per thread

// The place of this thread's item i in the tile: vectors of four, neighbours side by side.
__device__ __forceinline__ int offset_of(int item) {
  return (item / 4 * kThreads + static_cast<int>(threadIdx.x)) * 4 + item % 4;
}

__device__ void read_tile(const float* row, int begin, int vocab, bool vectors,
                          float (&logits)[kItems]) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int at = begin + offset_of(4 * v);
    if (vectors && at + 4 <= vocab) {
      const float4 four = *reinterpret_cast<const float4*>(row + at);
      logits[4 * v] = number_or_lowest(four.x);
      logits[4 * v + 1] = number_or_lowest(four.y);
      logits[4 * v + 2] = number_or_lowest(four.z);
      logits[4 * v + 3] = number_or_lowest(four.w);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        logits[4 * v + e] = number_or_lowest(at + e < vocab ? row[at + e] : -INFINITY);
      }
    }
  }
}

// Removes masked tokens: here, and in memory if the row is read again. The tile begins at a
// multiple of 32 tokens, so that the four tokens of a vector share a word of the mask.
__device__ void forbid(float (&logits)[kItems], int begin, const SampleRow& row,
                       const SampleKernelArgs& args, float* write_back) {
  static_assert(kSampleTile % 32 == 0);
  const std::uint32_t* mask = args.masks + row.mask * args.mask_words;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int at = begin + offset_of(4 * v);
    const std::uint32_t word = at < args.vocab ? mask[at / 32] : 0U;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if ((word >> ((at + e) % 32) & 1U) != 0) continue;
      logits[4 * v + e] = -INFINITY;
      if (write_back != nullptr && at + e < args.vocab) write_back[at + e] = -INFINITY;
    }
  }
}

__device__ void survey_raw(const float (&logits)[kItems], SampleTile& found) {
  float best = -INFINITY;
#pragma unroll
  for (int i = 0; i < kItems; ++i) best = fmaxf(best, logits[i]);
  best = block_reduce<kThreads>(best, Larger{});
  float mass = 0;
  if (isfinite(best)) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) mass += expf(logits[i] - best);
  }
  found.raw_best = best;
  found.raw_mass = block_reduce<kThreads>(static_cast<double>(mass), Sum{});
}

__device__ __noinline__ void adjust_shared(PenaltyTile& tile, int begin, const SampleRow& row,
                                           const SampleKernelArgs& args) {
  adjust_tile<kThreads>(tile, begin, row, args);
}

__device__ void adjust(float (&logits)[kItems], int begin, const SampleRow& row,
                       const SampleKernelArgs& args, float* write_back) {
  __shared__ PenaltyTile tile;
#pragma unroll
  for (int i = 0; i < kItems; ++i) tile.logits[offset_of(i)] = logits[i];
  adjust_shared(tile, begin, row, args);
#pragma unroll
  for (int i = 0; i < kItems; ++i) logits[i] = tile.logits[offset_of(i)];
  if (write_back == nullptr) return;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (begin + offset_of(i) < args.vocab) write_back[begin + offset_of(i)] = logits[i];
  }
}

__device__ void race(const float (&logits)[kItems], int begin, float best, const SampleRow& row,
                     SampleTile& found) {
  const float inverse = 1.0F / row.temperature;
  const DrawKey key(row.seed, row.position);
  float rates[kItems];
  float fastest = 0;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const float weight = expf((logits[i] - best) * inverse);
    rates[i] = quick_rate(weight, key, static_cast<std::uint32_t>(begin + offset_of(i)));
    fastest = fmaxf(fastest, rates[i]);
  }
  const float bound = block_reduce<kThreads>(fastest, Larger{}) * (1 - 3 * kQuickRateError);
  unsigned may_win = 0;
#pragma unroll
  for (int i = 0; i < kItems; ++i) may_win |= fastest > 0 && rates[i] >= bound ? 1U << i : 0U;
  Runner winner{0, -1, 0};
  for (; may_win != 0; may_win &= may_win - 1) {
    const int item = __ffs(static_cast<int>(may_win)) - 1;
    float logit = logits[0];
#pragma unroll
    for (int i = 1; i < kItems; ++i) logit = i == item ? logits[i] : logit;  // stay in registers
    const float weight = expf((logit - best) * inverse);
    winner = Faster{}(winner, run_exactly(weight, key, begin + offset_of(item), logit));
  }
  winner = block_reduce<kThreads>(winner, Faster{});
  found.drawn = winner.id;
  found.drawn_logit = winner.logit;
}

__global__ __launch_bounds__(kThreads,
                             4) void survey(const __grid_constant__ SampleKernelArgs args) {
  wait_for_previous_kernels();
  const SampleRow& row = args.rows[blockIdx.y];
  const int begin = static_cast<int>(blockIdx.x) * kSampleTile;
  float* source = args.logits + static_cast<std::int64_t>(blockIdx.y) * args.stride;
  float logits[kItems];
  read_tile(source, begin, args.vocab, args.vectors, logits);

  if (masked(row)) forbid(logits, begin, row, args, cuts(row) || reports(row) ? source : nullptr);

  SampleTile found{};
  found.drawn = -1;
  if (reports(row)) survey_raw(logits, found);
  if (row.forced_token < 0) {
    if (adjusted(row)) adjust(logits, begin, row, args, adjusts_in_place(row) ? source : nullptr);
    std::uint64_t key = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int id = begin + offset_of(i);
      if (id >= args.vocab) continue;
      const std::uint64_t other = order_key(logits[i], static_cast<std::uint32_t>(id));
      key = key < other ? other : key;
    }
    found.best = block_reduce<kThreads>(key, Larger{});
    const float best = logit_of(found.best);
    if (row.temperature > 0 && isfinite(best)) {
      if (!cuts(row)) {
        race(logits, begin, best, row, found);
      } else if (row.top_p < 1) {
        const float inverse = 1.0F / row.temperature;
        float mass = 0;
#pragma unroll
        for (int i = 0; i < kItems; ++i) mass += expf((logits[i] - best) * inverse);
        found.mass = block_reduce<kThreads>(static_cast<double>(mass), Sum{});
      }
    }
  }
  if (threadIdx.x == 0) {
    args.partials[static_cast<std::int64_t>(blockIdx.y) * args.tiles + blockIdx.x] = found;
  }
}

}  // namespace

Status launch_survey(const SampleKernelArgs& args, std::int32_t num_rows, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(args.tiles), static_cast<unsigned>(num_rows));
  return launch_kernel("sampling (survey of the logits)", {grid, kThreads, 0, true}, stream, survey,
                       args);
}

}  // namespace tandem::cuda
