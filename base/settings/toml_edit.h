// Changes values in a TOML text and keeps every other byte, including comments and blanks.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tandem {

// Sets keys of the text's first, nameless table to new values, given as TOML ("\"4-7\"", "12"). An
// existing key keeps its place and comment; others are added, in order, after the last key of that
// table. `name` is the text's name in messages. invalid_argument: it is not TOML.
Result<std::string> set_toml_values(std::string_view text, std::string_view name,
                                    const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace tandem
