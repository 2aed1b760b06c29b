// Shapes of published models, for dummy weights and benchmarks without any file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/spec/model_spec.h"

namespace tandem {

std::vector<std::string> model_preset_names();
std::optional<ModelSpec> model_preset(std::string_view name);

// Returns the usual name of a model: the last part of its folder or shape, or "model" if there is
// none.
std::string name_of_model(const std::string& model);

// Returns a tokenizer.json with 256 tokens, one per byte, for models without a tokenizer.
std::string byte_tokenizer_json();

}  // namespace tandem
