// An adapter's folder, read as an engine reads it, and what the registry is to say of it.
#pragma once

#include <map>
#include <string>

#include "base/dtype.h"
#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "scheduler/cluster/registry/registry_entries.h"

namespace tandem {

// The shapes of checkpoints, each read once.
class ModelShapes {
 public:
  // `model`: a folder, or a preset's name.
  Result<ModelSpec> find(const std::string& model);

 private:
  std::map<std::string, ModelSpec> known_;
};

// Reads and checks all of the folder. Name, version, model, owner and time are left to the caller.
Result<AdapterEntry> read_adapter_folder(const std::string& folder, const ModelSpec& config,
                                         DType dtype, bool follow_links_outside);

// Ok: what is in the entry's folder now is what the entry says. `model` in place of the entry's,
// unless it is empty.
Status verify_adapter(const AdapterEntry& entry, const std::string& model, ModelShapes& shapes,
                      bool follow_links_outside);

}  // namespace tandem
