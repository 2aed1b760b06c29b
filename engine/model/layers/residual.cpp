#include "engine/model/layers/residual.h"

namespace tandem {
namespace {

// Adds up the ranks' parts, and adds the sum to the residual or puts it there.
void reduce(LayerStep& step, const TensorView& part, bool accumulate, const BlockInput& input) {
  const bool norms = input.norm.rank != 0 && !step.part.spec.norm_centred;
  step.stream.all_reduce({step.part.communicator, part, step.work.residual, accumulate,
                          norms ? input.norm : TensorView(), step.part.residual_eps(),
                          norms ? step.work.x : TensorView()});
  if (!norms) make_input(step, input);
}

}  // namespace

BlockInput input_of_attention(const Layer& layer) {
  return {layer.weights.attention_norm};
}
BlockInput input_of_mlp(const Layer& layer) {
  return {layer.weights.mlp_norm, !layer.spec.parallel};
}

void make_input(LayerStep& step, const BlockInput& input) {
  if (!input.wanted) return;
  const float eps = step.part.residual_eps();
  if (input.norm.rank != 0) {
    step.stream.rms_norm(
        {step.work.residual, input.norm, eps, step.work.x, step.part.spec.norm_centred});
  } else {
    step.stream.add_norm({{}, {}, step.work.residual, {}, eps, step.work.x});
  }
}

SumTarget sum_target(const LayerStep& step, const TensorView& part, const TensorView& sum_norm) {
  if (!step.part.is_whole()) return {part, false};
  if (sum_norm.rank != 0) return {step.work.sum, false};
  return {step.work.residual, true};
}

void end_block(LayerStep& step, const TensorView& part, const TensorView& sum_norm,
               const BlockInput& next, float scale) {
  const bool is_whole = step.part.is_whole();
  if (sum_norm.rank == 0) {
    if (is_whole) return make_input(step, next);
    return reduce(step, part, true, next);
  }
  if (!is_whole) {
    step.stream.all_reduce({step.part.communicator, part, step.work.sum, false, {}, 0, {}});
  }
  end_whole_block(step, sum_norm, next, scale);
}

void end_whole_block(LayerStep& step, const TensorView& sum_norm, const BlockInput& next,
                     float scale) {
  step.stream.add_norm({step.work.sum, sum_norm, step.work.residual, next.norm,
                        step.part.norm_eps(), next.wanted ? step.work.x : TensorView(), scale});
}

void begin_blocks(LayerStep& step, const TensorView& part, const BlockInput& first) {
  if (step.part.is_whole()) return make_input(step, first);
  reduce(step, part, false, first);
}

}  // namespace tandem
