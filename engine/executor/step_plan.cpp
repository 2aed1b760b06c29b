#include "engine/executor/step_plan.h"

namespace tandem {

void StepPlan::clear() {
  entries.clear();
  tokens.clear();
  pages.clear();
  samples.clear();
  history.clear();
  biases.clear();
  num_masks = 0;
}

}  // namespace tandem
