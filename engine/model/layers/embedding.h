// The embedding before the first layer and the head after the last one.
#pragma once

#include "engine/model/layers/layer_step.h"
#include "engine/model/layers/residual.h"

namespace tandem {

// Writes the tokens' rows of the embedding to the residual, and the first layer's input to
// step.work.x.
void embed(LayerStep& step, const ModelWeights& weights, const BlockInput& first);

// Computes the logits of the rows that need them, [num_logits, vocab] f32, in the first rows of
// step.work.logits. `sampled`: memory for the residual of these rows, [num_logits, H] f32. If the
// step has dropped the other rows, it holds the residual already.
void head(LayerStep& step, const ModelWeights& weights, const TensorView& sampled);

}  // namespace tandem
