// Renderings that end where the last message's content does: the content gets a mark, and the text
// is cut there.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem::jinja {

// Marks the end of the last message's content (of its last text, if it has parts). The text that
// was marked.
Result<std::string> mark_end(nlohmann::ordered_json& messages);
// What comes before the mark. White space before it stays if the template left that after it: then
// it does not trim. invalid_argument when mark or content did not make it into the text.
Result<std::string> cut_at_mark(std::string text, std::string_view content);

}  // namespace tandem::jinja
