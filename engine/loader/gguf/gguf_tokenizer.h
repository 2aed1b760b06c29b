// Translates the tokenizer in a GGUF file's metadata into the files of a Hugging Face checkpoint,
// so that engine/tokenizer is the only tokenizer.
#pragma once

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "engine/loader/gguf/gguf_model.h"

namespace tandem {

// Returns tokenizer.json. Supports byte-level BPE ("gpt2"), whose 'tokenizer.ggml.pre' must be a
// name with a known pattern, and SentencePiece's BPE ("llama"), whose merges follow from the
// tokens' scores. Refuses other kinds by name, and tokens that are not UTF-8 or longer than 1,024
// bytes.
Result<nlohmann::json> gguf_tokenizer(const GgufModel& model);

// Returns tokenizer_config.json: the chat templates and the special tokens.
Result<nlohmann::json> gguf_tokenizer_config(const GgufModel& model);

}  // namespace tandem
