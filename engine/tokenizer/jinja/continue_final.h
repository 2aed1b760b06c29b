// Renderings that end after the last message's content: a mark is added to the content, and the
// text is cut at the mark.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem::jinja {

// Marks the end of the last message's content (of its last text, if it has parts). Returns the text
// without the mark.
Result<std::string> mark_end(nlohmann::ordered_json& messages);
// Returns the text before the mark. White space before the mark is kept if the template kept white
// space after it, which shows that it does not trim. invalid_argument if the mark or the content is
// not in the text.
Result<std::string> cut_at_mark(std::string text, std::string_view content);

}  // namespace tandem::jinja
