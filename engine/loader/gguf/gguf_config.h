// Translates a GGUF file's metadata into the configuration files of a Hugging Face checkpoint, so
// that the families' code and its checks are the only ones.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/loader/gguf/gguf_model.h"

namespace tandem {

// Returns the config.json of the checkpoint that the file was made of. Refuses, with the key named:
// architectures that no family here has, keys of the architecture that the translation does not
// know, since they could change the result, and values of a wrong kind. Whether the values make
// sense is for the reader of the config to check.
Result<nlohmann::json> gguf_config(const GgufModel& model);

// Returns generation_config.json: the sampling that the file suggests.
Result<nlohmann::json> gguf_generation_config(const GgufModel& model);

// The number of heads by which the rows of a tensor are stored in another order than in a Hugging
// Face checkpoint: there, elements i and i + d/2 of each head of queries and keys rotate as a pair;
// llama.cpp stores the pairs of some architectures as neighbours. 0: the rows have the usual order.
Result<std::int64_t> interleaved_heads(const GgufModel& model, std::string_view tensor);

// The divisors of the rotary embedding's frequencies ('rope_freqs.weight'), one for each pair;
// empty: none.
Result<std::vector<double>> rotary_divisors(const GgufModel& model);

}  // namespace tandem
