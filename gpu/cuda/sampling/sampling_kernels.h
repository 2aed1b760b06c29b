// Data that the two sampling kernels share with their launcher.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// The number of a row's tokens that one block of the survey reads.
constexpr int kSampleTile = 4096;

// The survey's results for one tile of one row.
struct SampleTile {
  std::uint64_t best;  // order_key of the best logit after biases and penalties
  double mass;         // sum of exp((logit - best) / temperature); set when top_p cuts
  double raw_mass;     // for the model's own logits: sum of exp(logit - raw_best)
  float raw_best;      // both are set if log probabilities are asked for
  std::int32_t drawn;  // the tile's winner of the race and its logit, set when nothing is cut; -1:
  float drawn_logit;   // no token has a weight
};

struct SampleKernelArgs {
  float* logits;
  std::int64_t stride;  // elements from row to row
  std::int32_t vocab;
  std::int32_t tiles;  // per row
  bool vectors;        // every row begins at a multiple of 16 bytes
  const SampleRow* rows;
  const std::int32_t* history;
  const TokenBias* biases;
  const std::uint32_t* masks;  // [.., mask_words]
  std::int64_t mask_words;     // per mask: words for the vocabulary
  SampleTile* partials;        // [rows, tiles]
  SampledToken* out;
};

Status launch_survey(const SampleKernelArgs& args, std::int32_t num_rows, cudaStream_t stream);
Status launch_choose(const SampleKernelArgs& args, std::int32_t num_rows, cudaStream_t stream);

}  // namespace tandem::cuda
