// Presents the gain from cores: the budget as text, tables and plots of first tokens by cores, and
// the measured values.
#pragma once

#include <string>

#include "engine/profile/profile.h"
#include "tools/report/html_page.h"

namespace tandem {

// The budget, a table by cores, and measured first tokens beside the predicted ones; ends with a
// newline. Without CPU workers it says so in a sentence.
std::string first_tokens_text(const Profile& profile);

// Adds the same as sections of a page, with the curves as plots and the measured points in them.
void add_first_tokens(const Profile& profile, HtmlPage& page);
// Figures for the top of a page: "64 tokens, cold, rank 64": "8.1 ms", and the useful cores.
std::vector<HtmlFigure> first_token_figures(const Profile& profile);

}  // namespace tandem
