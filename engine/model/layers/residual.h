// Adds the sum of a block to the residual, in the same way for attention and the feed-forward part:
//
//   sum over the ranks of base product and deltas -> its norm, if the layer has one behind the
//   block
//   -> residual += sum -> x = norm(residual), or the residual itself: the next block's input
//
// Without a norm of the sum, a device that holds the whole model adds product and deltas directly
// to the residual.
#pragma once

#include "engine/model/layers/adapted_norm.h"
#include "engine/model/layers/layer_step.h"

namespace tandem {

// The input of the next block, step.work.x: a norm of the residual.
struct BlockInput {
  AdaptedNorm norm;    // [H]; none: the residual itself, as the layer norms only sums
  bool wanted = true;  // false: no block follows
};
BlockInput input_of_attention(const Layer& layer);
// A parallel feed-forward part has none, as it reads what attention has read.
BlockInput input_of_mlp(const Layer& layer);

// Writes the input to step.work.x, from a residual that is complete.
void make_input(LayerStep& step, const BlockInput& input);

// The output of the projection that ends a block: `part`, memory for this shard's part of the sum,
// or, on a device that holds the whole model, the residual itself, step.work.sum if the sum has a
// norm, or step.work.apart if adapters replace rows of it. `accumulate`: the product adds.
struct SumTarget {
  TensorView y;
  bool accumulate = false;
};
SumTarget sum_target(const LayerStep& step, Site site, const TensorView& part,
                     const AdaptedNorm& sum_norm);

// Ends a block whose projection has written what sum_target() gave. `sum_norm`, [H]: the sum's
// norm; none: it has none. `scale`: multiplies the residual at the end; 1 if the sum has no norm.
void end_block(LayerStep& step, const SumTarget& target, const AdaptedNorm& sum_norm,
               const BlockInput& next, float scale = 1);

// Ends a block whose sum every shard has computed whole, in step.work.sum.
void end_whole_block(LayerStep& step, const AdaptedNorm& sum_norm, const BlockInput& next,
                     float scale);

// Begins the model: the residual holds the embedding, or, of several ranks, `part` this rank's
// part.
void begin_blocks(LayerStep& step, const TensorView& part, const BlockInput& first);

}  // namespace tandem
