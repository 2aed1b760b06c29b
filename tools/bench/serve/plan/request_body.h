// The JSON of a request, in OpenAI's two dialects.
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
  bool as_text = false;  // completions: prompts as texts rather than as token ids
  bool ignore_eos = false;
  nlohmann::ordered_json sampling = nlohmann::ordered_json::object();  // temperature, ...
  nlohmann::ordered_json extra = nlohmann::ordered_json::object();     // goes over all of it
};

// A JSON object of more fields, `--extra-body`; nothing else.
Result<nlohmann::ordered_json> parse_extra_body(const std::string& text);

// Streamed, with the usage at the end.
std::string request_body(const BodyOptions& options, std::string_view model,
                         const LoadPrompt& prompt, const PromptMaker& maker);

}  // namespace tandem
