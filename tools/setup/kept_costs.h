// Costs that engines have learned about a machine, kept from one start to the next.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "engine/handoff/handoff_options.h"
#include "engine/model/spec/model_spec.h"
#include "engine/profile/profile.h"
#include "gpu/device.h"
#include "scheduler/planning/coldstart/engine_lessons.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// There is a file per machine, model shape, number of devices sharing the model, and number of
// workers: a profile of the figures used for planning, and the lessons with it. One thread.
class KeptCosts {
 public:
  // `base` names machine and model and has the initial figures. The folder is created on first use.
  KeptCosts(const std::filesystem::path& folder, Profile base);

  // Returns the lessons learned on the same machine with the same figures, or nothing if there are
  // none. If the file cannot be read, that is logged.
  std::optional<EngineLessons> read();
  // Writes the lessons if they differ from those last read or written. A failure is logged once.
  void keep(const EngineLessons& lessons);

  const std::filesystem::path& path() const { return path_; }

 private:
  Profile base_;  // with the lessons in the file
  std::filesystem::path path_;
  bool has_failed_ = false;
};

// Returns null if nothing is planned from costs or settings.learned_costs turns keeping off.
std::unique_ptr<KeptCosts> open_kept_costs(const EngineSettings& settings, const ModelSpec& spec,
                                           DType dtype, const DeviceInfo& device,
                                           const HandoffOptions& handoff);

}  // namespace tandem
