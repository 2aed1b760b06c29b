// What stands before the first layer and behind the last one.
#pragma once

#include "engine/model/layers/layer_step.h"

namespace tandem {

// The residual before the first layer, from the tokens' rows of the embedding, and its norm by
// `first_norm`, [H], in step.work.x.
void embed(LayerStep& step, const ModelWeights& weights, const TensorView& first_norm);

// Logits of the rows that somebody will read: [num_logits, vocab] f32, into the first rows of
// step.work.logits. `sampled`: room for the residual of those rows, [num_logits, H] f32; where the
// step has dropped the others, it is there already.
void head(LayerStep& step, const ModelWeights& weights, const TensorView& sampled);

}  // namespace tandem
