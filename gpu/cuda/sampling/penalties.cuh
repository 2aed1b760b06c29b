// Logit biases and penalties of one tile of a row's logits in shared memory:
//   x[i] += its biases; then, if i is in the history,
//   x[i] = x[i] > 0 ? x[i] / repetition : x[i] * repetition, and, if n >= 1 of them are output,
//   x[i] -= presence + frequency n.
// Every block reads the whole history and counts the tokens that fall into its tile.
#pragma once

#include <cstdint>

#include "gpu/cuda/sampling/order.cuh"
#include "gpu/cuda/sampling/sampling_kernels.h"

namespace tandem::cuda {

struct PenaltyTile {
  alignas(16) float logits[kSampleTile];
  std::uint32_t marks[kSampleTile];
};

__device__ inline bool penalised(const SampleRow& row) {
  return row.history_len > 0 &&
         (row.repetition_penalty != 1 || row.presence_penalty != 0 || row.frequency_penalty != 0);
}

__device__ inline bool adjusted(const SampleRow& row) {
  return row.num_biases > 0 || penalised(row);
}

namespace detail {

constexpr std::uint32_t kFree = 0xFFFFFFFFU;
constexpr std::uint32_t kSeen = 0x80000000U;

template <int kThreads>
__device__ void fill_marks(PenaltyTile& tile, std::uint32_t value) {
  for (int i = static_cast<int>(threadIdx.x); i < kSampleTile; i += kThreads) tile.marks[i] = value;
  __syncthreads();
}

// A token may have several biases; they are added in their order, regardless of thread timing: of
// the biases for the same logit, the first one goes first.
template <int kThreads>
__device__ void add_biases(PenaltyTile& tile, int begin, const TokenBias* biases, int count) {
  fill_marks<kThreads>(tile, kFree);
  for (int first = 0; first < count; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    const TokenBias bias = i < count ? biases[i] : TokenBias{-1, 0};
    const auto at = static_cast<std::uint32_t>(bias.token - begin);
    bool waiting = bias.token >= 0 && at < kSampleTile;
    while (__syncthreads_or(waiting ? 1 : 0) != 0) {
      if (waiting) atomicMin(&tile.marks[at], static_cast<std::uint32_t>(i));
      __syncthreads();
      const bool mine = waiting && tile.marks[at] == static_cast<std::uint32_t>(i);
      __syncthreads();
      if (mine) {
        tile.logits[at] += bias.bias;
        tile.marks[at] = kFree;
        waiting = false;
      }
    }
  }
}

template <int kThreads>
__device__ void penalise(PenaltyTile& tile, int begin, const SampleRow& row,
                         const std::int32_t* history) {
  fill_marks<kThreads>(tile, 0);
  for (int i = static_cast<int>(threadIdx.x); i < row.history_len; i += kThreads) {
    const auto at = static_cast<std::uint32_t>(history[i] - begin);
    if (history[i] < 0 || at >= kSampleTile) continue;
    atomicOr(&tile.marks[at], kSeen);
    if (i >= row.prompt_len) atomicAdd(&tile.marks[at], 1U);
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kSampleTile; i += kThreads) {
    const std::uint32_t mark = tile.marks[i];
    if (mark == 0) continue;
    float logit = tile.logits[i];
    logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
    const std::uint32_t outputs = mark & ~kSeen;
    if (outputs > 0) {  // rounded like the host device: no fused multiply-add
      logit -= __fadd_rn(row.presence_penalty,
                         __fmul_rn(row.frequency_penalty, static_cast<float>(outputs)));
    }
    tile.logits[i] = logit;
  }
}

}  // namespace detail

// Adjusts `tile.logits`, which hold the model's logits of tokens [begin, begin + kSampleTile),
// written before the call by any thread. Every thread of the block calls it.
template <int kThreads>
__device__ void adjust_tile(PenaltyTile& tile, int begin, const SampleRow& row,
                            const SampleKernelArgs& args) {
  __syncthreads();
  if (row.num_biases > 0) {
    detail::add_biases<kThreads>(tile, begin, args.biases + row.bias, row.num_biases);
  }
  if (penalised(row)) {
    __syncthreads();
    detail::penalise<kThreads>(tile, begin, row, args.history + row.history);
  }
  __syncthreads();
  // An infinite bias or penalty may have turned an infinite logit into a NaN.
  for (int i = static_cast<int>(threadIdx.x); i < kSampleTile; i += kThreads) {
    tile.logits[i] = number_or_lowest(tile.logits[i]);
  }
  __syncthreads();
}

}  // namespace tandem::cuda
