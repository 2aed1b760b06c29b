// The weights of a GGUF file as a WeightSource.
#pragma once

#include <filesystem>
#include <memory>

#include "base/status.h"
#include "engine/loader/weights.h"

namespace tandem {

// Opens a GGUF file, or the first of several that hold one model (GgufModel::open). Tensors have
// the file's own names (gguf_tensor_names); the rows of queries and keys are read in the order of a
// Hugging Face checkpoint, for which adapters are made.
Result<std::unique_ptr<WeightSource>> open_gguf(const std::filesystem::path& path);

}  // namespace tandem
