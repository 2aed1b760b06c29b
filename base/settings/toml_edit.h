// Changes values in a TOML text and leaves every other byte as it is, comments and blanks included.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tandem {

// Keys of the text's first, nameless table, with their new values as TOML ("\"4-7\"", "12"). A key
// that is there keeps its place and its comment; others are added, in order, behind the last key of
// that table. `name` is the text's in messages. invalid_argument: it is not TOML.
Result<std::string> set_toml_values(std::string_view text, std::string_view name,
                                    const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace tandem
