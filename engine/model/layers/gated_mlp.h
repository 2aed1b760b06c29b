// The feed-forward part of a layer: down(activation(gate(x)) * up(x)) (Shazeer 2020).
#pragma once

#include "engine/model/layers/layer_step.h"
#include "engine/model/layers/residual.h"

namespace tandem {

// Reads step.work.x, adds to the residual, and writes the next block's input to step.work.x: that
// of the next layer, or the residual itself for a layer's part of inputs by layer.
void gated_mlp(LayerStep& step, const Layer& layer, const BlockInput& next);

}  // namespace tandem
