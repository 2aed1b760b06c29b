// The attention of a layer, in three parts, as a step may need only the first: for a piece of a
// prompt without logits, nothing is needed behind the last layer's own keys and values.
#pragma once

#include "engine/model/layers/layer_step.h"

namespace tandem {

// The angles of a layer's rotary embedding, f32; rank 0: it has none.
struct RotaryTable {
  TensorView cos_sin;  // [positions, 2, pairs]; or [T, 2, pairs], of the step's rows
  bool of_rows = false;
  TensorView q_scale;  // [positions]: QueryScale's factors; rank 0: none
};

// Computes q, k and v from step.work.x, and appends the rows' keys and values to the cache; q
// alone, if the layer reads the keys of another one.
void append_keys(LayerStep& step, const Layer& layer, const RotaryTable& rotary);

// The window of the layer's attention in this step. 0: no row has a key before its window, nor, of
// a recorded step, ever will have, so that a device may take its kernels for whole contexts.
std::int32_t window_in(const StepInput& input, const AttentionSpec& spec);

// Computes step.work.attention, the attention of the rows over the keys of their sequences.
void attend(LayerStep& step, const Layer& layer);

// Adds the projection o to the residual, and writes the input of the feed-forward part to
// step.work.x.
void attention_out(LayerStep& step, const Layer& layer);

}  // namespace tandem
