// The costs with which a command plans: those of a profile if one is named, and this machine's.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "engine/profile/profile.h"
#include "gpu/device.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

ProfileMachine this_machine(const DeviceInfo& device);
// `model` is a folder or a shape; its last part is recorded as the model's name.
ProfileModel this_model(const ModelSpec& spec, DType dtype, const std::string& model,
                        std::int64_t devices);

// Returns the costs from settings.profile, or an error if it cannot be read or is for another
// machine or model. Without a profile: built-in figures, which were measured on an H200.
Result<CostModel> choose_costs(const EngineSettings& settings, const ModelSpec& spec, DType dtype,
                               const DeviceInfo& device);

// True if settings.profile is reliable from the first request on: each of its figures was judged
// certain, and it measured at least as many workers as there are. False without a profile and for
// profiles of older programs, which did not judge.
bool is_profile_certain(const EngineSettings& settings, std::int32_t workers);

}  // namespace tandem
