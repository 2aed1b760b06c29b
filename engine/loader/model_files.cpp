#include "engine/loader/model_files.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/file/file.h"
#include "engine/loader/gguf/gguf_config.h"
#include "engine/loader/gguf/gguf_tokenizer.h"

namespace tandem {
namespace {

Result<nlohmann::json> translate(const GgufModel& model, std::string_view name) {
  if (name == "config.json") return gguf_config(model);
  if (name == "generation_config.json") return gguf_generation_config(model);
  if (name == "tokenizer.json") return gguf_tokenizer(model);
  if (name == "tokenizer_config.json") return gguf_tokenizer_config(model);
  return error(StatusCode::not_found, "a GGUF file has no {}", name);
}

}  // namespace

Result<nlohmann::json> translate_gguf(const std::filesystem::path& model, std::string_view name) {
  TANDEM_ASSIGN(const GgufModel gguf, GgufModel::open(model));
  Result<nlohmann::json> json = translate(gguf, name);
  if (!json) return json.status().with_context(model.string());
  return json;
}

Result<std::string> read_model_file(const std::filesystem::path& model, std::string_view name,
                                    std::uint64_t max_bytes) {
  if (!is_gguf_file(model)) return read_text_file(model / name, max_bytes);
  TANDEM_ASSIGN(const nlohmann::json json, translate_gguf(model, name));
  std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() <= max_bytes) return text;
  return invalid("{}: its {} has {} bytes, more than {}", model.string(), name, text.size(),
                 max_bytes);
}

}  // namespace tandem
