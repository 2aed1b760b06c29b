// Converts a checkpoint's config.json to a ModelSpec.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/status.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// Reads DIR/config.json, and the end tokens from generation_config.json if it exists; `model` is
// DIR or a GGUF file, whose metadata stands for these files (engine/loader/model_files.h). Every
// field that the family does not have a default for must be present, have the right type and lie in
// a sane range; the error names the file and the field. Models that the engine would compute
// wrongly (other families, activations, rope types, quantised weights, experts) are refused, and
// the error names the reason.
Result<ModelSpec> load_model_spec(const std::filesystem::path& model);
Result<ModelSpec> parse_model_spec(std::string_view config_json);

}  // namespace tandem
