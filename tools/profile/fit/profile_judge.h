// The reliability of a profile's figures: pure arithmetic on passes over all cases.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engine/profile/profile.h"

namespace tandem {

// The measurements of one pass over all stages. All passes have the same tables with the same rows.
using PassTables = std::vector<ProfileTable>;

// A figure is certain up to this spread: half the width of its interval divided by the figure.
inline constexpr double kCertainSpread = 0.05;

// Sets tables (the median of the passes for each cell), fits, costs and figures (profile_fit.h).
//
// A figure's interval comes from bootstrapping: passes are drawn repeatedly, with replacement, and
// each draw is fitted. The interval covers chance, drift and temporary disturbances, and contains
// the figure in about 95 of 100 runs.
//
// A constant disturbance is not visible in the passes, but in the system's counters: `others` is
// the share of the measured CPUs' time that others had. All intervals are widened by its possible
// effect on threads that wait for each other on these CPUs.
//
// An uncertain figure is not used for planning. The cost is the value within its interval that is
// nearest to the built-in figure, which is the built-in one if it is within; and always the
// built-in one if the figure is beyond what hardware can do or its model does not describe the
// samples. Requires passes. Unmeasured figures are named in the result, as by fit_profile.
Result<std::vector<std::string>> judge_passes(const std::vector<PassTables>& passes, double others,
                                              Profile& profile);

// The widest interval of any figure; 0 without figures.
double widest_spread(const Profile& profile);

}  // namespace tandem
