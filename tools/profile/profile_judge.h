// How far the figures of a profile can be trusted: pure arithmetic on passes over all cases.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engine/profile/profile.h"

namespace tandem {

// What one pass over all stages measured. Passes have the same tables with the same rows.
using PassTables = std::vector<ProfileTable>;

// A figure is certain up to this: half the width of its interval, over the figure.
inline constexpr double kCertainSpread = 0.05;

// Sets tables (of each cell the median of the passes), fits, costs and figures (profile_fit.h).
//
// A figure's interval comes from drawing as many passes from those that there are, again and again,
// with replacement, and fitting each draw: what chance, a drift and somebody who was busy for a
// while could have made of it. It holds the figure in some 95 of 100 runs.
//
// Who is busy all the while is seen in no pass, but in what the system counts: `others`, the share
// of the measured CPUs' time that others had. All intervals are wide enough for what that may have
// done to work that waits for each other on these CPUs.
//
// A figure that is not certain is not planned with: of its interval the value nearest to the
// built-in figure is, which is the built-in one where it lies within; and the built-in one, too,
// where the figure is beyond what hardware can do or its model does not describe the samples.
// Requires passes. What was not measured is named in the answer, as by fit_profile.
Result<std::vector<std::string>> judge_passes(const std::vector<PassTables>& passes, double others,
                                              Profile& profile);

// The widest interval of any figure; 0 without figures.
double widest_spread(const Profile& profile);

}  // namespace tandem
