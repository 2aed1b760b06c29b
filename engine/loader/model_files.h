// The configuration files of a model: those of a checkpoint's folder, or what stands for them in a
// GGUF file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// Returns the text of the file of this name in the folder `model`; not_found if it does not exist.
// If `model` is a GGUF file, its metadata is translated into config.json, generation_config.json,
// tokenizer.json or tokenizer_config.json, and other names are not_found. A text of more than
// `max_bytes` is refused.
Result<std::string> read_model_file(const std::filesystem::path& model, std::string_view name,
                                    std::uint64_t max_bytes);

// Returns what read_model_file() makes of a GGUF file before it becomes text: to write and parse
// the tokenizer.json of a large vocabulary takes as long as to make it.
Result<nlohmann::json> translate_gguf(const std::filesystem::path& model, std::string_view name);

}  // namespace tandem
