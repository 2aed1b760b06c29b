// The papers' experiments on this machine's device and cores: times, which are printed and not
// judged, and bytes, which are.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "engine/model/spec/model_spec.h"
#include "gpu/device.h"
#include "tools/bench/coldstart/cold_adapters.h"
#include "tools/bench/papers/experiment.h"
#include "tools/settings/engine_settings.h"

namespace tandem::papers {

Result<Findings> device_batching(const PapersBench& bench);       // Punica 1
Result<Findings> device_roofline(const PapersBench& bench);       // Punica 7
Result<Findings> device_operators(const PapersBench& bench);      // Punica 8
Result<Findings> device_ranks(const PapersBench& bench);          // Punica 9
Result<Findings> device_layer(const PapersBench& bench);          // Punica 10
Result<Findings> device_generation(const PapersBench& bench);     // Punica 11
Result<Findings> device_many_adapters(const PapersBench& bench);  // S-LoRA table 3
Result<Findings> device_merge(const PapersBench& bench);          // S-LoRA 9
Result<Findings> device_cost_models(const PapersBench& bench);    // CaraServe 4 and 9
Result<Findings> device_sync_free(const PapersBench& bench);      // CaraServe 16
Result<Findings> device_ipc(const PapersBench& bench);            // CaraServe 17
Result<Findings> device_cpu_lora(const PapersBench& bench);       // CaraServe 18

// Where device experiments run: --device, with the shape of --model. Without --model it is
// Llama-2-7B on a GPU, and on the host device a small Llama.
struct PapersModel {
  EngineSettings settings;
  ModelSpec spec;
  DType dtype = DType::bf16;
  bool on_gpu = false;
  std::optional<ScratchFolder> folder;  // of the small Llama's config.json

  Result<std::unique_ptr<Device>> make_device() const;
};
Result<PapersModel> papers_model(const PapersBench& bench);

inline constexpr std::array<std::string_view, 4> kPopularities = {"distinct", "uniform", "skewed",
                                                                  "identical"};
// The adapter of each of `rows` rows (rows_by_popularity()).
std::vector<std::int32_t> adapters_by_popularity(std::string_view popularity, std::int32_t rows);

}  // namespace tandem::papers
