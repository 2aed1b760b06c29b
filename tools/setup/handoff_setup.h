// From settings to CPU workers: how many, on which cores, planned with which costs.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cpu_lora/topology/machine_map.h"
#include "cpu_lora/topology/pin_plan.h"
#include "engine/handoff/handoff_options.h"
#include "engine/loader/model_config.h"
#include "gpu/device.h"
#include "tools/cli/settings.h"

namespace tandem {

// No groups where there are to be no workers: by choice, for want of cores, or because the adapter
// mode has none; the log says which. A core list or a profile that does not fit is an error.
Result<HandoffOptions> choose_handoff(const EngineSettings& settings, const ModelConfig& config,
                                      DType dtype, const DeviceInfo& device,
                                      const std::string& model_name);

// Where workers may live; how many is not said yet.
Result<PinOptions> choose_pinning(const EngineSettings& settings, bool on_gpu,
                                  const MachineMap& machine);

// The cores of the workers beside a host device, which its own threads had better leave alone.
Result<std::vector<int>> host_worker_cpus(const EngineSettings& settings);

}  // namespace tandem
