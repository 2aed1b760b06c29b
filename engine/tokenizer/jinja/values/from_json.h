// Converts a request's JSON to values.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/tokenizer/jinja/values/value.h"

namespace tandem::jinja {

// Members keep their order. Throws Error if the JSON is nested deeper than half of kMaxValueDepth.
Value from_json(const nlohmann::ordered_json& json, int depth = 0);

}  // namespace tandem::jinja
