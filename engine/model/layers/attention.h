// The attention of a layer, in three parts, so that a step may stop between them: a prompt's piece
// of which no row gets logits needs of its last layer the keys alone.
#pragma once

#include "engine/model/layers/layer_step.h"

namespace tandem {

// q, k and v of step.work.x; the rows' keys and values go into the cache. `rotary`: the table of
// the layer's rotary embedding, [positions, 2, head_dim / 2] f32.
void append_keys(LayerStep& step, const Layer& layer, const TensorView& rotary);

// step.work.attention = attention of the rows over their sequences' keys.
void attend(LayerStep& step, const Layer& layer);

// o, added to the residual, and the norm behind it: step.work.x is what the feed-forward part
// reads.
void attention_out(LayerStep& step, const Layer& layer);

}  // namespace tandem
