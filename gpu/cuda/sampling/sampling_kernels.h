// What the two kernels of sampling share with their launcher.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// Tokens of a row that one block of the survey looks at.
constexpr int kSampleTile = 4096;

// What the survey found in one tile of one row.
struct SampleTile {
  std::uint64_t best;  // order_key of the best logit after biases and penalties
  double mass;         // sum of exp((logit - best) / temperature); set when top_p cuts
  double raw_mass;     // of the model's own logits: sum of exp(logit - raw_best)
  float raw_best;      // both set when log probabilities are asked for
  std::int32_t drawn;  // the tile's winner of the race and its logit, set when nothing is cut;
  float drawn_logit;   // -1: no token has a weight
};

struct SampleKernelArgs {
  float* logits;
  std::int64_t stride;  // elements from row to row
  std::int32_t vocab;
  std::int32_t tiles;  // of a row
  bool vectors;        // every row begins at a multiple of 16 bytes
  const SampleRow* rows;
  const std::int32_t* history;
  const TokenBias* biases;
  const std::uint32_t* masks;  // [.., mask_words]
  std::int64_t mask_words;     // of the vocabulary
  SampleTile* partials;        // [rows, tiles]
  SampledToken* out;
};

Status launch_survey(const SampleKernelArgs& args, std::int32_t num_rows, cudaStream_t stream);
Status launch_choose(const SampleKernelArgs& args, std::int32_t num_rows, cudaStream_t stream);

}  // namespace tandem::cuda
