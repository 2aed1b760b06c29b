#include "engine/model/layers/gated_mlp.h"

#include "engine/model/layers/adapted_linear.h"
#include "engine/model/layers/residual.h"

namespace tandem {

void gated_mlp(LayerStep& step, const Layer& layer, const TensorView& next_norm) {
  const LayerWeights& w = layer.weights;
  const std::int64_t size = layer.spec.mlp.size;
  const TensorView gate_up = step.work.gate_up.slice_cols(0, 2 * size);
  const TensorView activation = step.work.activation.slice_cols(0, size);
  if (has_deltas(step, layer.index, Site::gate_up)) {
    run(step, {layer.index,
               Site::gate_up,
               step.work.x,
               w.gate_up,
               {},
               gate_up,
               false,
               {gate_up.slice_cols(0, size), gate_up.slice_cols(size, size)}});
    step.stream.swiglu({gate_up, activation});
  } else {
    step.stream.gemm_swiglu({step.work.x, w.gate_up, gate_up, activation});
  }
  const SumTarget sum = sum_target(step, step.shared.fed);
  run(step, {layer.index, Site::down, activation, w.down, {}, sum.y, sum.accumulate, {sum.y}});
  to_residual(step, sum.y, true, next_norm);
}

}  // namespace tandem
