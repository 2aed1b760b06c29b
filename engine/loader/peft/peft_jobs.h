// Decides which bytes of a PEFT adapter's weights fill which part of its run of bytes.
#pragma once

#include <vector>

#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/loader/peft/peft_config.h"
#include "engine/loader/peft/peft_source.h"
#include "engine/loader/safetensors/safetensors_header.h"

namespace tandem {

// Places the matrices of `plan`, which is plan_modules() of `peft`, in `adapter`, whose layers are
// empty, and returns the jobs that fill them, in the order of the run. Refuses tensors that are
// missing, left over, or of other shapes than the plan asks for. `score` becomes the tensor of a
// score head, which is no part of the run; null: there is none.
Result<std::vector<PeftJob>> plan_jobs(const SafetensorsHeader& header, const PeftConfig& peft,
                                       const std::vector<PlannedModule>& plan,
                                       const ModelSpec& spec, Adapter& adapter,
                                       const TensorInfo*& score);

}  // namespace tandem
