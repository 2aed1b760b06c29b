// What every page of a report carries: its style sheet and the script that sorts tables.
#pragma once

#include <string_view>

namespace tandem {

// For light and dark screens, phones and paper. Neither has '<' or '&', so that pages are XML, too.
extern const std::string_view kPageStyle;
// Without it tables stand as they were written.
extern const std::string_view kSortScript;

}  // namespace tandem
