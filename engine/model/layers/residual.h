// Adds the sum of a block to the residual, in the same way for attention and the feed-forward part:
//
//   sum over the ranks of base product and deltas -> residual += sum -> x = norm(residual)
//
// A family whose layers norm the sum itself (NormPlace::behind, around) would have that norm
// between the first arrow and the second; the sum would then need memory of its own. Without such a
// norm, a device that holds the whole model adds product and deltas directly to the residual.
#pragma once

#include "engine/model/layers/layer_step.h"

namespace tandem {

// The output of the projection that ends a block: `part`, memory for this shard's part of the sum,
// or the residual itself on a device that holds the whole model. `accumulate`: the product adds.
struct SumTarget {
  TensorView y;
  bool accumulate = false;
};
SumTarget sum_target(const LayerStep& step, const TensorView& part);

// Adds up `sum` over all ranks and writes the result to the residual, or adds it if `accumulate`;
// a device that holds the whole model has the sum in its residual already. Then computes
// step.work.x = norm(residual), unless `next_norm`, [H], is absent (rank 0).
void to_residual(LayerStep& step, const TensorView& sum, bool accumulate,
                 const TensorView& next_norm);

}  // namespace tandem
