// The embedding before the first layer and the head after the last one.
#pragma once

#include "engine/model/layers/layer_step.h"

namespace tandem {

// Writes the tokens' rows of the embedding to the residual, and its norm with `first_norm`, [H], to
// step.work.x.
void embed(LayerStep& step, const ModelWeights& weights, const TensorView& first_norm);

// Computes the logits of the rows that need them, [num_logits, vocab] f32, in the first rows of
// step.work.logits. `sampled`: memory for the residual of these rows, [num_logits, H] f32. If the
// step has dropped the other rows, it holds the residual already.
void head(LayerStep& step, const ModelWeights& weights, const TensorView& sampled);

}  // namespace tandem
