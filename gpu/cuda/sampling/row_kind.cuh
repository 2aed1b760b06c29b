// The kinds of work that a row of a sampling operation asks for.
#pragma once

#include "gpu/cuda/sampling/penalties.cuh"
#include "gpu/ops.h"

namespace tandem::cuda {

__device__ inline bool reports(const SampleRow& row) {
  return row.num_logprobs >= 0 || row.forced_token >= 0;
}

// True if some tokens may not be drawn. (min_p of 0 keeps all.)
__device__ inline bool cuts(const SampleRow& row) {
  return row.top_k > 0 || row.top_p < 1 || row.min_p > 0;
}

// True if the survey stores the adjusted logits for the cuts that follow. It does not if the
// model's own logits are still needed: then they are adjusted again, tile by tile, in every pass.
__device__ inline bool adjusts_in_place(const SampleRow& row) {
  return row.temperature > 0 && cuts(row) && !reports(row);
}

__device__ inline bool masked(const SampleRow& row) {
  return row.mask >= 0 && row.forced_token < 0;
}

}  // namespace tandem::cuda
