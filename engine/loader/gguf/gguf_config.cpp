#include "engine/loader/gguf/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/text/shown_text.h"
#include "engine/loader/gguf/gguf_architectures.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

// Tokens at which a turn or a text ends, in models whose files name only one of the two.
constexpr std::array<std::string_view, 8> kTurnEnds = {
    "<|eot_id|>",    "<|eom_id|>", "<|im_end|>",    "<|end|>",
    "<end_of_turn>", "<EOT>",      "<|endoftext|>", "<|end_of_text|>"};

// The ids at which answers end: of the text, and of a turn.
Status add_token_ids(const GgufModel& model, Json& config) {
  Json ends = Json::array();
  for (const char* const name : {"eos", "eot", "eom"}) {
    TANDEM_ASSIGN(const auto id, model.integer(fmt::format("tokenizer.ggml.{}_token_id", name)));
    if (id) ends.push_back(*id);
  }
  TANDEM_ASSIGN(const auto texts, model.texts("tokenizer.ggml.tokens"));
  for (std::size_t id = 0; id < texts.size(); ++id) {
    if (std::ranges::find(kTurnEnds, texts[id]) != kTurnEnds.end()) ends.push_back(id);
  }
  if (!ends.empty()) config["eos_token_id"] = std::move(ends);
  TANDEM_ASSIGN(const auto bos, model.integer("tokenizer.ggml.bos_token_id"));
  if (bos) config["bos_token_id"] = *bos;
  return {};
}

// The type to compute in that a checkpoint's config.json would name. Quantised weights have none,
// even beside an embedding that is not quantised, and Gemma's activations are too large for f16.
DType computed_in(const GgufModel& model, const GgufArchitecture& architecture,
                  const GgufTensor& embedding) {
  const bool quantised = std::ranges::any_of(
      model.tensors(), [](const auto& each) { return !each.second.tensor->type->dtype; });
  if (quantised) return DType::bf16;
  const DType stored = *embedding.type->dtype;
  return stored == DType::f16 && architecture.name.starts_with("gemma") ? DType::bf16 : stored;
}

}  // namespace

Result<Json> gguf_config(const GgufModel& model) {
  TANDEM_ASSIGN(const GgufArchitecture* const architecture, gguf_architecture(model));
  MetadataTranslation to(model, architecture->name);
  translate_sizes(to);
  translate_rotary(to);
  architecture->translate(to);
  TANDEM_ASSIGN(Json config, to.finish());
  const GgufTensor* const embedding = model.tensor("token_embd.weight");
  if (embedding == nullptr) return invalid("tensor 'token_embd.weight' is missing");
  config["vocab_size"] = embedding->shape.front();
  config["tie_word_embeddings"] = model.tensor("output.weight") == nullptr;
  config["dtype"] = to_string(computed_in(model, *architecture, *embedding));
  TANDEM_TRY(add_token_ids(model, config));
  return config;
}

Result<Json> gguf_generation_config(const GgufModel& model) {
  constexpr std::array<std::pair<const char*, const char*>, 5> kFields = {{
      {"temp", "temperature"},
      {"top_k", "top_k"},
      {"top_p", "top_p"},
      {"min_p", "min_p"},
      {"penalty_repeat", "repetition_penalty"},
  }};
  Json config = Json::object();
  for (const auto& [key, field] : kFields) {
    const std::string name = fmt::format("general.sampling.{}", key);
    if (const GgufValue* const value = model.find(name)) {
      if (const auto whole = value->is_list() ? std::nullopt : value->integer()) {
        config[field] = *whole;
        continue;
      }
    }
    TANDEM_ASSIGN(const auto number, model.number(name));
    if (number) config[field] = *number;
  }
  return config;
}

Result<std::int64_t> interleaved_heads(const GgufModel& model, std::string_view tensor) {
  TANDEM_ASSIGN(const GgufArchitecture* const architecture, gguf_architecture(model));
  const bool queries = tensor.find(".attn_q.") != std::string_view::npos;
  const bool keys = tensor.find(".attn_k.") != std::string_view::npos;
  if (!architecture->interleaved || (!queries && !keys)) return std::int64_t{0};
  const std::string count = fmt::format("{}.attention.head_count", architecture->name);
  TANDEM_ASSIGN(std::optional<std::int64_t> heads, model.integer(count));
  if (keys) {
    TANDEM_ASSIGN(const auto own, model.integer(count + "_kv"));
    if (own) heads = own;
  }
  const std::int64_t rows = model.tensor(tensor) == nullptr ? 0 : model.tensor(tensor)->shape[0];
  if (heads.value_or(0) <= 0 || rows % *heads != 0 || rows / *heads % 2 != 0) {
    return invalid("tensor '{}' has {} rows, which '{}' does not divide into pairs",
                   shown_text(tensor), rows, count);
  }
  return *heads;
}

Result<std::vector<double>> rotary_divisors(const GgufModel& model) {
  TANDEM_ASSIGN(const std::vector<float> values, read_list(model, "rope_freqs.weight"));
  return std::vector<double>(values.begin(), values.end());
}

}  // namespace tandem
