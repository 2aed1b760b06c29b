// Chooses the CPU workers from settings and a plan of cores, and the costs for planning with them.
#pragma once

#include <string>

#include "base/status.h"
#include "cpu_lora/topology/plan/pin_plan.h"
#include "engine/handoff/handoff_options.h"
#include "engine/model/spec/model_spec.h"
#include "gpu/device.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// Returns no groups if the plan has no workers (by choice or for lack of cores) or the adapter mode
// uses none; the log says which. A profile that does not fit the machine or model is an error.
Result<HandoffOptions> choose_handoff(const EngineSettings& settings, const ModelSpec& spec,
                                      DType dtype, const DeviceInfo& device,
                                      const std::string& model_name, const PinPlan& plan);

}  // namespace tandem
