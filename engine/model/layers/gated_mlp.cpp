#include "engine/model/layers/gated_mlp.h"

#include "engine/model/layers/adapted_linear.h"

namespace tandem {

void gated_mlp(LayerStep& step, const Layer& layer, const BlockInput& next) {
  const LayerWeights& w = layer.weights;
  const MlpSpec& spec = layer.spec.mlp;
  const std::int64_t size = spec.size;
  const TensorView gate_up = step.work.gate_up.slice_cols(0, 2 * size);
  const TensorView activation = step.work.activation.slice_cols(0, size);
  if (spec.bias || !w.gate_up.is_one() || changes(step, layer.index, Site::gate_up)) {
    run(step, {layer.index,
               Site::gate_up,
               step.work.x,
               w.gate_up,
               w.gate_up_bias,
               gate_up,
               false,
               {gate_up.slice_cols(0, size), gate_up.slice_cols(size, size)}});
    step.stream.swiglu({gate_up, activation, spec.activation});
  } else {
    step.stream.gemm_swiglu({step.work.x, w.gate_up.front(), gate_up, activation, spec.activation});
  }
  const AdaptedNorm norm{w.mlp_out_norm, layer.index, Site::mlp_out_norm};
  const SumTarget sum = sum_target(step, Site::down, step.shared.fed, norm);
  run(step,
      {layer.index, Site::down, activation, w.down, w.down_bias, sum.y, sum.accumulate, {sum.y}});
  if (layer.spec.input.size > 0) return end_block(step, sum, norm, BlockInput());
  end_block(step, sum, norm, next, w.output_scale);
}

}  // namespace tandem
