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

// What people call a model by its folder or shape: the last name of it, or "model" where that is
// none.
std::string name_of_model(const std::string& model);

// A tokenizer.json whose 256 tokens are the bytes: for models that come without one.
std::string byte_tokenizer_json();

}  // namespace tandem
