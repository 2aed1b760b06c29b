// From settings and a plan of cores to CPU workers: where, and planned with which costs.
#pragma once

#include <string>

#include "base/status.h"
#include "cpu_lora/topology/pin_plan.h"
#include "engine/handoff/handoff_options.h"
#include "engine/model/spec/model_spec.h"
#include "gpu/device.h"
#include "tools/cli/settings.h"

namespace tandem {

// No groups where the plan has no workers, by choice or for want of cores, or because the adapter
// mode has none; the log says which. A profile that does not fit is an error.
Result<HandoffOptions> choose_handoff(const EngineSettings& settings, const ModelSpec& config,
                                      DType dtype, const DeviceInfo& device,
                                      const std::string& model_name, const PinPlan& plan);

}  // namespace tandem
