// What the parts of one LlamaModel::forward() share.
#pragma once

#include "engine/model/llama.h"
#include "engine/model/step_handoff.h"

namespace tandem {

struct LlamaModel::Step {
  Stream& stream;
  StepInput input;
  const KvCache& cache;
  const AdapterTable& adapters;
  Workspace work;  // cut to the rows of this step
  Shared shared;   // the same
  const StepHandoff* handoff = nullptr;
  HandoffJob job;  // of the first place (StepHandoff); only with a handoff
  // Behind the last layer's attention `work` and `shared` are cut to the rows that get logits.
  bool drops_rows = false;
};

}  // namespace tandem
