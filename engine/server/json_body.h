// A request's bytes as JSON, with every limit that a hostile body makes necessary.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/server/errors.h"

namespace tandem {

// Reads an object. 400 says what is wrong (encoding, syntax, depth, not an object) and where.
MaybeError parse_json_body(std::string_view body, nlohmann::json& object);

}  // namespace tandem
