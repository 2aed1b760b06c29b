#include "engine/model/layers/residual.h"

#include "engine/model/layers/adapted_linear.h"

namespace tandem {
namespace {

// Adds up the ranks' parts, and adds the sum to the residual or puts it there.
void reduce(LayerStep& step, const TensorView& part, bool accumulate, const BlockInput& input) {
  const bool norms =
      input.norm.is_there() && !step.part.spec.norm_centred && !is_replaced(step, input.norm);
  step.stream.all_reduce({step.part.communicator, part, step.work.residual, accumulate,
                          norms ? input.norm.weight : TensorView(), step.part.residual_eps(),
                          norms ? step.work.x : TensorView()});
  if (!norms) make_input(step, input);
}

}  // namespace

BlockInput input_of_attention(const Layer& layer) {
  return {{layer.weights.attention_norm, layer.index, Site::attention_norm}};
}
BlockInput input_of_mlp(const Layer& layer) {
  return {{layer.weights.mlp_norm, layer.index, Site::mlp_norm}, !layer.spec.parallel};
}

void make_input(LayerStep& step, const BlockInput& input) {
  if (!input.wanted) return;
  const float eps = step.part.residual_eps();
  if (input.norm.is_there()) {
    run(step, input.norm, {step.work.residual, {}, eps, step.work.x, step.part.spec.norm_centred});
  } else {
    step.stream.add_norm({{}, {}, step.work.residual, {}, eps, step.work.x});
  }
}

SumTarget sum_target(const LayerStep& step, Site site, const TensorView& part,
                     const AdaptedNorm& sum_norm) {
  if (!step.part.is_whole()) return {part, false};
  if (sum_norm.is_there()) return {step.work.sum, false};
  if (replaces(step, site)) return {step.work.apart, false};
  return {step.work.residual, true};
}

void end_block(LayerStep& step, const SumTarget& target, const AdaptedNorm& sum_norm,
               const BlockInput& next, float scale) {
  const bool is_whole = step.part.is_whole();
  if (!sum_norm.is_there()) {
    if (!is_whole) return reduce(step, target.y, true, next);
    if (!target.accumulate) {
      step.stream.add_norm(
          {target.y, {}, step.work.residual, {}, step.part.residual_eps(), TensorView()});
    }
    return make_input(step, next);
  }
  if (!is_whole) {
    step.stream.all_reduce({step.part.communicator, target.y, step.work.sum, false, {}, 0, {}});
  }
  end_whole_block(step, sum_norm, next, scale);
}

// A norm of which adapters have weights is an operation by itself, before or after the others.
void end_whole_block(LayerStep& step, const AdaptedNorm& sum_norm, const BlockInput& next,
                     float scale) {
  const TensorView& sum = step.work.sum;
  const float eps = step.part.norm_eps();
  const bool normed = is_replaced(step, sum_norm);
  if (normed) run(step, sum_norm, {sum, {}, eps, sum});
  const bool norms_next = next.wanted && !is_replaced(step, next.norm);
  step.stream.add_norm({sum, normed ? TensorView() : sum_norm.weight, step.work.residual,
                        norms_next ? next.norm.weight : TensorView(), eps,
                        norms_next ? step.work.x : TensorView(), scale});
  if (!norms_next) make_input(step, next);
}

void begin_blocks(LayerStep& step, const TensorView& part, const BlockInput& first) {
  if (step.part.is_whole()) return make_input(step, first);
  reduce(step, part, false, first);
}

}  // namespace tandem
