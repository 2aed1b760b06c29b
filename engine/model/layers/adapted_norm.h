// A norm whose weight adapters may replace.
#pragma once

#include <cstdint>

#include "engine/model/layers/layer_step.h"

namespace tandem {

struct AdaptedNorm {
  TensorView weight;  // the base's; rank 0: there is no norm
  std::int64_t layer = 0;
  Site site = Site::attention_norm;
  std::int64_t module = 0;  // of the site's

  bool is_there() const { return weight.rank != 0; }
};

// True if an adapter of the step may have a weight of its own for the norm, which is there. The
// norm is then an operation by itself (run()).
bool is_replaced(const LayerStep& step, const AdaptedNorm& norm);

// Enqueues `args`, whose weight and `own` are set here, for rows of the step; `slots`: of others
// (StepInput::sampled_slots).
void run(LayerStep& step, const AdaptedNorm& norm, RmsNormArgs args,
         const std::int32_t* slots = nullptr);

}  // namespace tandem
