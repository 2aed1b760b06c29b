// The style sheet and the table-sorting script of every report page.
#pragma once

#include <string_view>

namespace tandem {

// Style sheet for light and dark screens, phones and paper. Has no '<' or '&': pages are XML, too.
extern const std::string_view kPageStyle;
// Script that sorts tables. Without it the rows keep the order in which they were written.
extern const std::string_view kSortScript;

}  // namespace tandem
