#include "tools/setup/checkpoint_defaults.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/log/log.h"
#include "engine/loader/end_token.h"
#include "engine/loader/json.h"
#include "engine/loader/model_files.h"
#include "engine/server/messages/request/request_parsing.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;  // tokenizer_config.json lists tokens
constexpr std::array<std::string_view, 5> kSampling = {"temperature", "top_p", "top_k", "min_p",
                                                       "repetition_penalty"};

// Returns the object in one of the model's files; an empty one if the file is missing or cannot be
// read.
Json read_object(const fs::path& model, std::string_view name) {
  const auto read = [&]() -> Result<Json> {
    TANDEM_ASSIGN(const std::string text, read_model_file(model, name, kMaxBytes));
    Result<Json> object = parse_json_object<Json>(text);
    if (!object) return object.status().with_context((model / name).string());
    return object;
  };
  Result<Json> object = read();
  if (object) return std::move(*object);
  if (object.status().code() != StatusCode::not_found) {
    log::warning("{}; it is ignored", object.status().message());
  }
  return Json::object();
}

}  // namespace

SamplingParams read_sampling_defaults(const fs::path& model) {
  const fs::path path = model / "generation_config.json";
  const Json config = read_object(model, "generation_config.json");
  SamplingParams sampling;
  std::string told;
  for (const std::string_view name : kSampling) {
    const auto value = config.find(std::string(name));
    if (value == config.end() || value->is_null()) continue;
    if (const MaybeError error = take_sampling_default(name, *value, sampling)) {
      log::warning("{}: {}; it is ignored", path.string(), error->message);
      continue;
    }
    told += fmt::format("{}{} {}", told.empty() ? "" : ", ", name, value->dump());
  }
  if (!told.empty()) {
    log::info(
        "default sampling: {} (from generation_config.json; --generation-config none ignores it)",
        told);
  }
  return sampling;
}

void add_tokenizer_end(const fs::path& model, const Tokenizer& tokenizer, ModelSpec& spec) {
  const std::optional<std::string> name = read_end_token("the model", [&](const std::string& file) {
    return read_model_file(model, file, kMaxBytes);
  });
  if (!name) return;
  const std::optional<TokenId> id = tokenizer.token_to_id(*name);
  if (!id || *id >= spec.vocab_size) return;
  if (std::ranges::find(spec.eos_token_ids, *id) != spec.eos_token_ids.end()) return;
  spec.eos_token_ids.push_back(*id);
  log::info("answers also end at the tokenizer's end token {}, beside those of the configuration",
            *id);
}

}  // namespace tandem
