// The GPUs that a command computes on.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "gpu/device.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// Returns the GPUs' numbers, one per device of `tensor_parallel`: those of `gpus`, else the first
// ones. Does not check that they exist.
Result<std::vector<int>> chosen_gpus(const EngineSettings& settings);

// Returns the first of chosen_gpus(); 0 if that is an error.
int first_gpu(const EngineSettings& settings);

// Returns settings for a single device, the first that `settings` names.
EngineSettings on_first_device(EngineSettings settings);

Result<std::vector<std::unique_ptr<Device>>> make_gpus(const EngineSettings& settings);

}  // namespace tandem
