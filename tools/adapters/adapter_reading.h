// Reads an adapter's folder as an engine does, and makes the registry's entry from it.
#pragma once

#include <map>
#include <string>

#include "base/dtype.h"
#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "scheduler/cluster/registry/registry_entries.h"

namespace tandem {

// Shapes of checkpoints, each read only once.
class ModelShapes {
 public:
  // `model`: a folder, or a preset's name.
  Result<ModelSpec> find(const std::string& model);

 private:
  std::map<std::string, ModelSpec> known_;
};

// Reads and checks the whole folder. Name, version, model, owner and time are set by the caller.
Result<AdapterEntry> read_adapter_folder(const std::string& folder, const ModelSpec& spec,
                                         DType dtype, bool follow_links_outside);

// Returns Ok if the entry's folder still has the content that the entry states. `model` replaces
// the entry's own model unless it is empty.
Status verify_adapter(const AdapterEntry& entry, const std::string& model, ModelShapes& shapes,
                      bool follow_links_outside);

}  // namespace tandem
