// Parses a request's bytes as JSON, with limits against hostile bodies.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/server/messages/errors.h"

namespace tandem {

// Parses an object. A 400 names the error (encoding, syntax, depth, not an object) and its
// position; a 413 means that it has more values than a request may have (kMaxJsonTreeBytes).
MaybeError parse_json_body(std::string_view body, nlohmann::json& object);

// Sets `value` if the object has the field and it is not null. A 400 if it is not a boolean.
MaybeError take_bool(const nlohmann::json& object, const char* field, bool& value);

}  // namespace tandem
