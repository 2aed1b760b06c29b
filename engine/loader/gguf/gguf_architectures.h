// The architectures of GGUF files that Tandem serves. Each is a function that translates what
// differs between them, and a row in gguf_architectures.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/loader/gguf/metadata_translation.h"

namespace tandem {

struct GgufArchitecture {
  std::string_view name;  // 'general.architecture'
  // Writes model_type, and the fields that not all architectures have.
  void (*translate)(MetadataTranslation& to);
  bool interleaved = false;  // as interleaved_heads() says
};

// Refuses architectures without a row, by name.
Result<const GgufArchitecture*> gguf_architecture(const GgufModel& model);

// Writes the sizes and the rotary embedding, which all architectures say alike.
void translate_sizes(MetadataTranslation& to);
void translate_rotary(MetadataTranslation& to);

// Reads a tensor that is a list of numbers; empty if it is absent.
Result<std::vector<float>> read_list(const GgufModel& model, const std::string& name);

}  // namespace tandem
