// A profile for people: on the terminal, as a page with plots, and beside an older one.
#pragma once

#include <string>
#include <vector>

#include "engine/profile/profile.h"
#include "tools/report/html_page.h"

namespace tandem {

// Machine, model, coefficients, fits with their R2, budget and map.
std::string profile_text(const Profile& profile);

// The same as a page, with the samples and the fitted lines plotted. `command` wrote it.
HtmlPage profile_page(const Profile& profile, std::string command);

// The coefficients side by side with their change in percent; what they are of, where that differs.
struct ProfileDiff {
  std::string text;
  double largest_change = 0;  // share: 0.12
};
ProfileDiff diff_profiles(const Profile& before, const Profile& after);

}  // namespace tandem
