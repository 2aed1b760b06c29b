// The GPUs that a command computes on.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "gpu/device.h"
#include "tools/cli/settings.h"

namespace tandem {

// Their numbers, one for each of `tensor_parallel` devices: those of `gpus`, else the first ones.
// Whether they are there is not looked at.
Result<std::vector<int>> chosen_gpus(const EngineSettings& settings);

// The first of them; 0 where chosen_gpus() is an error.
int first_gpu(const EngineSettings& settings);

// Settings of one device, the first of those that `settings` names.
EngineSettings on_first_device(EngineSettings settings);

Result<std::vector<std::unique_ptr<Device>>> make_gpus(const EngineSettings& settings);

}  // namespace tandem
