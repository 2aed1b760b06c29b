// Compares two profiles.
#pragma once

#include <string>

#include "engine/profile/profile.h"

namespace tandem {

// The figures side by side with their change in percent, and the differences between the machines
// and models. Judged figures are compared by their measured values, even if an uncertain figure's
// cost has another value.
struct ProfileDiff {
  std::string text;
  // The largest relative change, 0.12, of the figures that changed by more than both spreads
  // together. A smaller change may be noise.
  double largest_change = 0;
};
ProfileDiff diff_profiles(const Profile& before, const Profile& after);

}  // namespace tandem
