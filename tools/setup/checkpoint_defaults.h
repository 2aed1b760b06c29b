// Sampling defaults and end tokens from the files beside a checkpoint's config.json.
#pragma once

#include <filesystem>

#include "engine/model/spec/model_spec.h"
#include "engine/service/generation.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

// Reads temperature, top_p, top_k, min_p and repetition_penalty from generation_config.json and
// logs them; missing values are OpenAI's defaults. A value that a request may not have is left out
// with a warning.
SamplingParams read_sampling_defaults(const std::filesystem::path& model);

// Adds the end token named by tokenizer_config.json or special_tokens_map.json if neither
// config.json nor generation_config.json has it: many fine-tuned models name it only there. A file
// that cannot be read is skipped with a warning.
void add_tokenizer_end(const std::filesystem::path& model, const Tokenizer& tokenizer,
                       ModelSpec& spec);

}  // namespace tandem
