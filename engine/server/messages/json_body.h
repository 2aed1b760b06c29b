// A request's bytes as JSON, with every limit that a hostile body makes necessary.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/server/messages/errors.h"

namespace tandem {

// Reads an object. 400 says what is wrong (encoding, syntax, depth, not an object) and where;
// 413 that it holds more values than one request may (kMaxJsonTreeBytes).
MaybeError parse_json_body(std::string_view body, nlohmann::json& object);

// Sets `value` if the object has the field and it is not null. 400 if it is no boolean.
MaybeError take_bool(const nlohmann::json& object, const char* field, bool& value);

}  // namespace tandem
