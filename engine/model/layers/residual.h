// How a block's sum reaches the residual, in one place for attention and the feed-forward part:
//
//   sum over the ranks of base product and deltas -> residual += sum -> x = norm(residual)
//
// A family whose layers norm the sum itself (NormPlace::behind, around) has that norm between the
// first arrow and the second: sum_target() then gives it memory of its own. Without one, a device
// that holds the whole model adds product and deltas straight into the residual.
#pragma once

#include "engine/model/layers/layer_step.h"

namespace tandem {

// Where the projection that ends a block writes: this shard's part of the sum, or the residual.
struct SumTarget {
  TensorView y;
  bool accumulate = false;
};
SumTarget attention_sum(const LayerStep& step);
SumTarget mlp_sum(const LayerStep& step);

// Adds up what all ranks have in `sum` and puts it into the residual, or adds it to it; then
// step.work.x = norm(residual), unless `next_norm`, [H], is absent (rank 0).
void to_residual(LayerStep& step, const TensorView& sum, bool accumulate,
                 const TensorView& next_norm);

}  // namespace tandem
