// What files beside a checkpoint's config.json say of how its answers are drawn and where they end.
#pragma once

#include <filesystem>

#include "engine/model/spec/model_spec.h"
#include "engine/service/generation.h"
#include "engine/tokenizer/tokenizer.h"

namespace tandem {

// generation_config.json's temperature, top_p, top_k, min_p and repetition_penalty, told in the
// log; OpenAI's defaults where it is silent, or not there. A value that a request may not have is
// left out with a warning.
SamplingParams read_sampling_defaults(const std::filesystem::path& model);

// Adds the end token that tokenizer_config.json names, or special_tokens_map.json, where neither
// config.json nor generation_config.json has it: fine-tuned models often say it there alone. A file
// that cannot be read is passed over with a warning.
void add_tokenizer_end(const std::filesystem::path& model, const Tokenizer& tokenizer,
                       ModelSpec& config);

}  // namespace tandem
