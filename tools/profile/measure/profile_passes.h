// The passes of `tandem profile`: all stages are measured in turn until the figures are stable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/profile/profile.h"
#include "tools/profile/fit/profile_judge.h"
#include "tools/profile/measure/busy_others.h"

namespace tandem {

// One kind of measurement, fully prepared. For one thread.
class ProfileStage {
 public:
  virtual ~ProfileStage() = default;
  // Measures all its cases once and adds their tables. The first call warms up.
  virtual Status measure(PassTables& tables) = 0;
};

struct NamedStage {
  std::string what;  // "the link"
  std::unique_ptr<ProfileStage> stage;
};

struct PassLimits {
  // Six passes are all on one side of the median only in 3 of 100 runs.
  std::size_t least = 6;
  std::size_t most = 40;
  double seconds = 20;   // no pass begins after that, once there are kFewest
  double narrow = 0.02;  // ends when the spread of each figure is at most this

  static constexpr std::size_t kFewest = 3;  // fewer passes show no spread
};

// Runs the passes after a first one that warms up and is discarded. Judges them (profile_judge.h)
// and sets profile.others. `terminal`: shows progress on standard error. Returns sentences about
// figures that were not measured.
Result<std::vector<std::string>> measure_in_passes(const std::vector<NamedStage>& stages,
                                                   const PassLimits& limits, const Clock& clock,
                                                   bool terminal, BusyOthers& others,
                                                   Profile& profile);

}  // namespace tandem
