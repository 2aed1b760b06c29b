// Inputs by layer (Gemma 3n): each layer ends with a block that gates a part of an input which the
// token has beside the residual. For the layers' parts, P wide each, all of them made at once,
//
//   parts = (norm(projection(embedding) / sqrt(H)) + table[token] sqrt(P)) / sqrt(2)
//   residual += norm(projection(activation(gate(residual)) * part))
//
// Every rank computes all of it; only the table is cut, by ranges of the vocabulary.
#pragma once

#include "engine/model/layers/layer_step.h"
#include "engine/model/layers/residual.h"

namespace tandem {

// Copies the residual, which holds the embedding, to step.work.embedded.
void keep_embedding(LayerStep& step);

// Writes the parts of all layers to step.work.layer_inputs, from step.work.embedded. It follows the
// feed-forward part of `layer`, as its site follows those of that part.
void make_layer_inputs(LayerStep& step, const Layer& layer, const LayerInputWeights& weights);

// Reads the residual from step.work.x and the layer's part from step.layer_input, adds to the
// residual, and writes the next layer's input to step.work.x.
void add_layer_input(LayerStep& step, const Layer& layer, const BlockInput& next);

}  // namespace tandem
