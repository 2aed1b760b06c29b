#include "tools/bench/papers/on_device.h"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "tools/bench/measure/bench_lora_ways.h"
#include "tools/setup/engine_setup.h"
#include "tools/setup/model_presets.h"

namespace tandem::papers {
namespace {

// A Llama of 14 million parameters, or of one million if it has to be quick.
std::string small_llama(bool quick) {
  return fmt::format(
      R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": {},
"num_hidden_layers": {}, "num_attention_heads": 8, "num_key_value_heads": 8,
"intermediate_size": {}, "vocab_size": 512, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
"tie_word_embeddings": false, "torch_dtype": "bfloat16"}})",
      quick ? 256 : 512, quick ? 2 : 4, quick ? 512 : 1408);
}

Status write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return error(StatusCode::unavailable, "cannot write {}", path.string());
  return {};
}

}  // namespace

Result<std::unique_ptr<Device>> PapersModel::make_device() const {
  return tandem::make_device(settings);
}

Result<PapersModel> papers_model(const PapersBench& bench) {
  PapersModel model;
  model.settings = bench.engine;
  model.on_gpu = is_for_gpu(bench.engine);
  if (model.settings.model == "auto" && model.on_gpu && !bench.quick) {
    model.settings.model = "llama-2-7b";
  } else if (model.settings.model == "auto") {
    TANDEM_ASSIGN(ScratchFolder folder, ScratchFolder::create());
    model.folder.emplace(std::move(folder));
    TANDEM_TRY(write(model.folder->path() / "config.json", small_llama(bench.quick)));
    TANDEM_TRY(write(model.folder->path() / "tokenizer.json", byte_tokenizer_json()));
    model.settings.model = model.folder->path();
  }
  TANDEM_ASSIGN(model.spec, find_model_spec(model.settings.model));
  TANDEM_ASSIGN(model.dtype, choose_dtype(model.settings, model.spec, model.on_gpu));
  return model;
}

std::vector<std::int32_t> adapters_by_popularity(std::string_view popularity, std::int32_t rows) {
  std::vector<std::int32_t> of_row;
  std::int32_t adapter = 0;
  for (const std::int32_t count : rows_by_popularity(popularity, rows)) {
    of_row.insert(of_row.end(), static_cast<std::size_t>(count), adapter++);
  }
  return of_row;
}

}  // namespace tandem::papers
