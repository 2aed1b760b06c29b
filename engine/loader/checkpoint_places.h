// The tensors of a checkpoint of safetensors.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "engine/loader/safetensors/safetensors.h"

namespace tandem {

struct CheckpointPlace {
  const SafetensorsFile* file;
  const TensorInfo* info;
};
using CheckpointPlaces = std::map<std::string, CheckpointPlace, std::less<>>;

}  // namespace tandem
