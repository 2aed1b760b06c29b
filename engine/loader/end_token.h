// The end token that the files beside a tokenizer name.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// `read` returns the text of a file; not_found if it does not exist. The token's text comes from
// tokenizer_config.json, otherwise from special_tokens_map.json. A file that cannot be read is left
// out with a warning, which names its owner by `whose` ("adapter 'a'").
std::optional<std::string> read_end_token(
    std::string_view whose,
    const std::function<Result<std::string>(const std::string& file)>& read);

}  // namespace tandem
