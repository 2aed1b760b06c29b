// A row of logits that one block reads several times, mostly from the L2 cache.
#pragma once

#include <cstdint>

#include "gpu/cuda/sampling/order.cuh"
#include "gpu/cuda/sampling/penalties.cuh"
#include "gpu/cuda/sampling/sampling_kernels.h"

namespace tandem::cuda {

constexpr int kChooseThreads = 512;

__device__ __noinline__ inline void load_adjusted(PenaltyTile& tile, const float* logits, int begin,
                                                  const SampleRow& row,
                                                  const SampleKernelArgs& args) {
  for (int i = static_cast<int>(threadIdx.x); i < kSampleTile; i += kChooseThreads) {
    tile.logits[i] =
        number_or_lowest(begin + i < args.vocab ? logits[begin + i] : __uint_as_float(0xFF800000U));
  }
  adjust_tile<kChooseThreads>(tile, begin, row, args);
}

struct RowView {
  const float* logits;
  const SampleRow* row;
  const SampleKernelArgs* args;
  PenaltyTile* tile;  // not null: `logits` are the model's own, adjusted here in each pass

  // Calls body(logit, id) for every token, on any thread. Every thread of the block calls it.
  template <typename Body>
  __device__ void each(Body body) const {
    const int vocab = args->vocab;
    const int thread = static_cast<int>(threadIdx.x);
    if (tile != nullptr) {
      for (int begin = 0; begin < vocab; begin += kSampleTile) {
        load_adjusted(*tile, logits, begin, *row, *args);
        const int end = min(kSampleTile, vocab - begin);
        for (int i = thread; i < end; i += kChooseThreads) body(tile->logits[i], begin + i);
        __syncthreads();
      }
      return;
    }
    int done = 0;
    if (args->vectors) {
      // Four loads are in flight before the first is used, because the row is far away.
      constexpr int kAhead = 4;
      constexpr int kStep = kAhead * 4 * kChooseThreads;
      for (; done + kStep <= vocab; done += kStep) {
        float4 four[kAhead];
#pragma unroll
        for (int v = 0; v < kAhead; ++v) {
          four[v] =
              *reinterpret_cast<const float4*>(logits + done + (v * kChooseThreads + thread) * 4);
        }
#pragma unroll
        for (int v = 0; v < kAhead; ++v) {
          const int id = done + (v * kChooseThreads + thread) * 4;
          body(number_or_lowest(four[v].x), id);
          body(number_or_lowest(four[v].y), id + 1);
          body(number_or_lowest(four[v].z), id + 2);
          body(number_or_lowest(four[v].w), id + 3);
        }
      }
    }
    for (int id = done + thread; id < vocab; id += kChooseThreads) {
      body(number_or_lowest(logits[id]), id);
    }
  }
};

}  // namespace tandem::cuda
