#include "engine/model/layers/residual.h"

namespace tandem {

SumTarget sum_target(const LayerStep& step, const TensorView& part) {
  if (step.part.is_whole()) return {step.work.residual, true};
  return {part, false};
}

void to_residual(LayerStep& step, const TensorView& sum, bool accumulate,
                 const TensorView& next_norm) {
  const float eps = step.part.norm_eps();
  if (!step.part.is_whole()) {
    step.stream.all_reduce({step.part.communicator, sum, step.work.residual, accumulate, next_norm,
                            eps, next_norm.rank == 0 ? TensorView() : step.work.x});
  } else if (next_norm.rank != 0) {
    step.stream.rms_norm({step.work.residual, next_norm, eps, step.work.x});
  }
}

}  // namespace tandem
