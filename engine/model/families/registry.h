// From a checkpoint's config.json to what its model computes.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/status.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// Reads DIR/config.json, and generation_config.json's end tokens when it is there. Every field is
// checked for presence, type and a sane range; the message names the file and the field. What the
// engine would compute wrongly (other families, activations, rope types, quantised weights,
// experts) is refused by name.
Result<ModelSpec> load_model_spec(const std::filesystem::path& dir);
Result<ModelSpec> parse_model_spec(std::string_view config_json);

}  // namespace tandem
