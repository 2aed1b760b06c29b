// What engines learn of a machine's costs, kept from one start to the next.
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
#include "tools/cli/settings.h"

namespace tandem {

// A file for each machine, model shape, number of devices that share it and of workers: a profile
// of the figures that were planned with, and the lessons beside them. One thread.
class KeptCosts {
 public:
  // `base` says what of, and by which figures. The folder is made when there is something to keep.
  KeptCosts(const std::filesystem::path& folder, Profile base);

  // What was learnt with the same figures on the same machine; nothing: there is none. A file that
  // cannot be read is a matter for the log.
  std::optional<EngineLessons> read();
  // Writes them, unless they are what was read or written last. A failure is told once.
  void keep(const EngineLessons& lessons);

  const std::filesystem::path& path() const { return path_; }

 private:
  Profile base_;  // with the lessons that the file has
  std::filesystem::path path_;
  bool has_failed_ = false;
};

// Null where nothing is planned by figures, or nothing is to be kept (settings.learned_costs).
std::unique_ptr<KeptCosts> open_kept_costs(const EngineSettings& settings, const ModelSpec& config,
                                           DType dtype, const DeviceInfo& device,
                                           const HandoffOptions& handoff);

}  // namespace tandem
