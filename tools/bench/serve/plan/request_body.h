// The JSON of a request in OpenAI's two formats.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tools/bench/serve/plan/prompts.h"

namespace tandem {

enum class Dialect { completions, chat };

struct BodyOptions {
  Dialect dialect = Dialect::completions;
  bool as_text = false;  // completions: prompts as texts, not as token ids
  bool ignore_eos = false;
  nlohmann::ordered_json sampling = nlohmann::ordered_json::object();  // temperature, ...
  nlohmann::ordered_json extra = nlohmann::ordered_json::object();     // overrides all other fields
};

// Reads the JSON object of additional fields in `--extra-body`; anything else is an error.
Result<nlohmann::ordered_json> parse_extra_body(const std::string& text);

// The request asks for a stream with the usage at the end.
std::string request_body(const BodyOptions& options, std::string_view model,
                         const LoadPrompt& prompt, const PromptMaker& maker);

}  // namespace tandem
