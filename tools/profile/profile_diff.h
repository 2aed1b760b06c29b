// Two profiles beside each other.
#pragma once

#include <string>

#include "engine/profile/profile.h"

namespace tandem {

// The figures side by side with their change in percent; what they are of, where that differs.
// Figures that were judged are compared as they were measured, also where the costs have another
// value because one is uncertain.
struct ProfileDiff {
  std::string text;
  // Of the figures that changed by more than their two spreads together: the share, 0.12. What is
  // within them may be no change at all.
  double largest_change = 0;
};
ProfileDiff diff_profiles(const Profile& before, const Profile& after);

}  // namespace tandem
