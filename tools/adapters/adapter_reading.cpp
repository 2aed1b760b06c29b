#include "tools/adapters/adapter_reading.h"

#include <filesystem>
#include <system_error>

#include "base/file/file_identity.h"
#include "engine/loader/adapter.h"
#include "engine/loader/peft/peft_reader.h"
#include "tools/setup/engine_setup.h"

namespace tandem {

Result<ModelSpec> ModelShapes::find(const std::string& model) {
  const auto found = known_.find(model);
  if (found != known_.end()) return found->second;
  TANDEM_ASSIGN(ModelSpec spec, find_model_spec(model));
  known_.emplace(model, spec);
  return spec;
}

Result<AdapterEntry> read_adapter_folder(const std::string& folder, const ModelSpec& spec,
                                         DType dtype, bool follow_links_outside) {
  std::error_code failure;
  // Links in the path are resolved, so that the entry has the folder's real path.
  const std::filesystem::path real = std::filesystem::canonical(folder, failure);
  if (failure) return errno_status(folder, failure.value());
  TANDEM_ASSIGN(const Adapter adapter, load_peft_adapter(real, spec, dtype, nullptr, unix_now_ns(),
                                                         LinkRule{follow_links_outside, {}}));
  AdapterEntry entry;
  entry.rank = adapter.max_rank;
  entry.modules = adapter.modules;
  entry.digest = adapter.digest;
  entry.dtype = to_string(adapter.dtype);
  entry.bytes = adapter.num_bytes;
  entry.source = real.string();
  return entry;
}

Status verify_adapter(const AdapterEntry& entry, const std::string& model, ModelShapes& shapes,
                      bool follow_links_outside) {
  TANDEM_ASSIGN(const DType dtype, parse_dtype(entry.dtype));
  const auto spec = shapes.find(model.empty() ? entry.model : model);
  if (!spec) {
    return error(spec.status().code(), "{}; --model DIR names where the model is now",
                 spec.status().message());
  }
  TANDEM_ASSIGN(const AdapterEntry found,
                read_adapter_folder(entry.source, *spec, dtype, follow_links_outside));
  if (found.digest == entry.digest) return {};
  return invalid(
      "{} holds other weights (digest {}, the registry says {}); put the old ones back, or add it "
      "again as a new version",
      entry.source, found.digest, entry.digest);
}

}  // namespace tandem
