#include "engine/model/layers/layer_input.h"

#include <cmath>
#include <numbers>

#include "engine/model/layers/adapted_linear.h"
#include "engine/model/layers/adapted_norm.h"

namespace tandem {

void keep_embedding(LayerStep& step) {
  step.stream.add_norm({{}, {}, step.work.residual, {}, step.part.norm_eps(), step.work.embedded});
}

void make_layer_inputs(LayerStep& step, const Layer& layer, const LayerInputWeights& weights) {
  const ModelPart& part = step.part;
  const std::int64_t size = layer.spec.input.size;
  const TensorView& parts = step.work.layer_inputs;
  EmbedArgs args{weights.table, step.input.ids, part.is_whole() ? parts : step.shared.layer_inputs};
  args.scale = std::sqrt(static_cast<float>(size));
  args.first_id = static_cast<std::int32_t>(part.vocab.first);
  args.vocab = static_cast<std::int32_t>(part.spec.vocab_size);
  step.stream.embed(args);
  if (!part.is_whole()) {
    step.stream.all_reduce({part.communicator, args.out, parts, false, {}, 0, {}});
  }
  const TensorView& projected = step.work.projected;
  run(step, {layer.index,
             Site::layer_inputs,
             step.work.embedded,
             weights.projection,
             {},
             projected,
             false,
             {projected}});
  // A row for each layer. norm(y / sqrt(H)) with eps is norm(y) with H eps.
  const std::int64_t layers = part.spec.num_layers();
  const std::int64_t rows = parts.rows() * layers;
  const float eps = part.norm_eps() * static_cast<float>(part.spec.hidden_size);
  const AdaptedNorm norm{weights.norm, layer.index, Site::layer_input_norm};
  const bool normed = is_replaced(step, norm);
  if (normed) {
    const TensorView by_layer(projected.data, DType::f32, {parts.rows(), layers, size});
    run(step, norm, {by_layer, {}, eps, by_layer});
  }
  step.stream.add_norm({TensorView(projected.data, DType::f32, {rows, size}),
                        normed ? TensorView() : weights.norm,
                        TensorView(parts.data, DType::f32, {rows, size}),
                        {},
                        eps,
                        {},
                        1 / std::numbers::sqrt2_v<float>});
}

void add_layer_input(LayerStep& step, const Layer& layer, const BlockInput& next) {
  const LayerWeights& w = layer.weights;
  const TensorView& gate = step.work.input_gate;
  const TensorView gated = step.work.activation.slice_cols(0, layer.spec.input.size);
  const TensorView& sum = step.work.sum;
  run(step, {layer.index, Site::input_gate, step.work.x, w.input_gate, {}, gate, false, {gate}});
  step.stream.swiglu({gate, gated, layer.spec.mlp.activation, step.layer_input});
  run(step,
      {layer.index, Site::input_projection, gated, w.input_projection, {}, sum, false, {sum}});
  end_whole_block(step, {w.input_out_norm, layer.index, Site::input_out_norm}, next,
                  w.output_scale);
}

}  // namespace tandem
