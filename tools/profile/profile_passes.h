// The passes of `tandem profile`: all stages by turns, again and again, until the figures stand.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/profile/profile.h"
#include "tools/profile/busy_others.h"
#include "tools/profile/profile_judge.h"

namespace tandem {

// One kind of measurement, with all that it needs ready. One thread.
class ProfileStage {
 public:
  virtual ~ProfileStage() = default;
  // Measures all its cases once and adds their tables. The first time warms up.
  virtual Status measure(PassTables& tables) = 0;
};

struct NamedStage {
  std::string what;  // "the link"
  std::unique_ptr<ProfileStage> stage;
};

struct PassLimits {
  // With six passes all of them lie on one side of the median in 3 of 100 runs.
  std::size_t least = 6;
  std::size_t most = 40;
  double seconds = 20;   // begins no pass after that, once there are kFewest
  double narrow = 0.02;  // ends when each figure's spread is no wider

  static constexpr std::size_t kFewest = 3;  // with fewer nothing shows a spread
};

// After a first pass that warms up and is forgotten. Judges them (profile_judge.h) and sets
// profile.others. `terminal`: standard error shows how far it is. Says what was not measured.
Result<std::vector<std::string>> measure_in_passes(const std::vector<NamedStage>& stages,
                                                   const PassLimits& limits, const Clock& clock,
                                                   bool terminal, BusyOthers& others,
                                                   Profile& profile);

}  // namespace tandem
