#include "engine/loader/end_token.h"

#include "base/log/log.h"
#include "engine/loader/json.h"

namespace tandem {
namespace {

// The token is given as a text or as an object with "content".
std::optional<std::string> named_end(const Json& config) {
  const auto found = config.find("eos_token");
  if (found == config.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_object()) return std::nullopt;
  const auto content = found->find("content");
  if (content == found->end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

}  // namespace

std::optional<std::string> read_end_token(
    std::string_view whose,
    const std::function<Result<std::string>(const std::string& file)>& read) {
  for (const char* const file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const Result<std::string> text = read(file);
    const Result<Json> config = text ? parse_json_object<Json>(*text) : text.status();
    if (config) {
      if (std::optional<std::string> name = named_end(*config)) return name;
    } else if (config.status().code() != StatusCode::not_found) {
      log::warning("{}: {}: {}; it is ignored", whose, file, config.status().message());
    }
  }
  return std::nullopt;
}

}  // namespace tandem
