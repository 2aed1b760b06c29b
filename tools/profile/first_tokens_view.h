// What cores buy, for people: the budget in words, tables and plots of first tokens by cores, and
// what was measured of them.
#pragma once

#include <string>

#include "engine/profile/profile.h"
#include "tools/report/html_page.h"

namespace tandem {

// Words, a table by cores, and measured first tokens beside the predicted ones; ends with a line's
// end. Without CPU workers a sentence says so.
std::string first_tokens_text(const Profile& profile);

// The same as sections of a page, the curves as plots: measured points lie over them.
void add_first_tokens(const Profile& profile, HtmlPage& page);
// "64 tokens, cold, rank 64": "8.1 ms", and how many cores pay, for a page's first lines.
std::vector<HtmlFigure> first_token_figures(const Profile& profile);

}  // namespace tandem
