#include "tools/setup/profile_costs.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/limits/cpu_quota.h"
#include "tools/cli/machine.h"
#include "tools/setup/model_presets.h"

namespace tandem {

ProfileMachine this_machine(const DeviceInfo& device) {
  // Counts all online cores: a cpuset limits what this process may use, but the machine is the
  // same.
  const std::int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
  const std::optional<CpuQuota> quota = read_cpu_quota();
  return {.cpu = cpu_name(),
          .cores = std::max<std::int64_t>(cores, 1),
          .device = device.is_cuda ? device.name : "host",
          .quota_cpus = quota ? quota->cpus : 0};
}

ProfileModel this_model(const ModelSpec& spec, DType dtype, const std::string& model,
                        std::int64_t devices) {
  return ProfileModel::of(spec, dtype, name_of_model(model), devices);
}

Result<CostModel> choose_costs(const EngineSettings& settings, const ModelSpec& spec, DType dtype,
                               const DeviceInfo& device) {
  if (settings.profile.empty()) {
    CostModel costs;
    costs.element_bytes = static_cast<std::int32_t>(size_of(dtype));
    return costs;
  }
  TANDEM_ASSIGN(const Profile profile, read_profile(settings.profile));
  const Status fits =
      check_profile(profile, this_machine(device),
                    this_model(spec, dtype, settings.model, settings.tensor_parallel));
  if (!fits) return fits.with_context("profile " + settings.profile);
  return profile.costs;
}

bool is_profile_certain(const EngineSettings& settings, std::int32_t workers) {
  if (settings.profile.empty()) return false;
  const Result<Profile> profile = read_profile(settings.profile);
  return profile && !profile->figures.empty() && profile->is_certain() &&
         profile->workers == workers;
}

}  // namespace tandem
