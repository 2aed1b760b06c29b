// A profile as text for the terminal and as a page with plots.
#pragma once

#include <string>
#include <vector>

#include "engine/profile/profile.h"
#include "tools/report/html_page.h"

namespace tandem {

// Machine, model, coefficients, fits with their R2, budget and map.
std::string profile_text(const Profile& profile);

// The same as a page, with plots of the samples and the fitted lines. `command` is the command line
// that created the profile.
HtmlPage profile_page(const Profile& profile, std::string command);

}  // namespace tandem
