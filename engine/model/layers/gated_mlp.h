// The feed-forward part of a layer: down(silu(gate(x)) * up(x)) (SwiGLU, Shazeer 2020).
#pragma once

#include "engine/model/layers/layer_step.h"

namespace tandem {

// Reads step.work.x, adds to the residual, and writes the next layer's input to step.work.x.
// `next_norm`, [H]: the norm of the next layer; absent after the last one.
void gated_mlp(LayerStep& step, const Layer& layer, const TensorView& next_norm);

}  // namespace tandem
