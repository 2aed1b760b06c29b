// The costs that a command plans with: a profile's, when one is named, and this machine's.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "engine/profile/profile.h"
#include "gpu/device.h"
#include "tools/cli/settings.h"

namespace tandem {

ProfileMachine this_machine(const DeviceInfo& device);
// `model` is a folder or a shape: its last name tells people what it was.
ProfileModel this_model(const ModelSpec& config, DType dtype, const std::string& model,
                        std::int64_t devices);

// Those of settings.profile; refused with the reason if it cannot be read or does not describe this
// machine and model. Without one the built-in figures, which is what an H200 gave.
Result<CostModel> choose_costs(const EngineSettings& settings, const ModelSpec& config, DType dtype,
                               const DeviceInfo& device);

// Whether what settings.profile says can be planned with from the first request on: each figure was
// judged and is certain, and as many workers were measured as there are. False without a profile,
// and for one of a program that did not judge.
bool is_profile_certain(const EngineSettings& settings, std::int32_t workers);

}  // namespace tandem
