#include "engine/server/messages/unsupported_fields.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "engine/server/messages/request_parsing.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr const char* kByTemplate = "templates take such through 'chat_template_kwargs'";

// OpenAI's first, then vLLM's, then other servers'.
const UnsupportedField kUnsupported[] = {
    {.name = "functions", .accepted = "[[]]", .instead = "give 'tools'"},
    {.name = "function_call", .accepted = R"(["none", "auto"])", .instead = "give 'tool_choice'"},
    {.name = "suffix", .accepted = R"([""])"},
    {.name = "best_of", .accepts_n = true},
    {.name = "modalities", .accepted = R"([["text"]])"},
    {.name = "audio"},
    {.name = "web_search_options"},
    {.name = "verbosity", .accepted = R"(["medium"])"},
    {.name = "reasoning_effort", .instead = kByTemplate},
    {.name = "service_tier", .accepted = R"(["auto", "default"])"},
    {.name = "guided_decoding_backend"},
    {.name = "guided_whitespace_pattern"},
    {.name = "structural_tag", .instead = "give 'structured_outputs'"},
    {.name = "truncation_side", .accepted = R"(["left"])"},
    {.name = "use_beam_search", .accepted = "[false]"},
    {.name = "length_penalty", .accepted = "[1]"},
    {.name = "early_stopping", .accepted = "[false]"},
    {.name = "logits_processors", .accepted = "[[]]"},
    {.name = "prompt_embeds"},
    {.name = "prompt_logprobs", .instead = "'echo' with 'logprobs' tells them"},
    {.name = "add_special_tokens", .where = kCompletions, .accepted = "[true]"},
    {.name = "add_special_tokens", .where = kChat, .accepted = "[false]"},
    {.name = "spaces_between_special_tokens", .accepted = "[true]"},
    {.name = "include_reasoning", .accepted = "[true]"},
    {.name = "thinking_token_budget"},
    {.name = "return_tokens_as_token_ids", .accepted = "[false]"},
    {.name = "return_token_ids", .accepted = "[false]"},
    {.name = "mm_processor_kwargs", .accepted = "[{}]"},
    {.name = "kv_transfer_params"},
    {.name = "vllm_xargs", .accepted = "[{}]"},
    {.name = "cache_salt"},
    {.name = "repetition_detection"},
    {.name = "enable_thinking", .instead = kByTemplate},
    {.name = "thinking", .instead = kByTemplate},
    {.name = "grammar", .accepted = R"([""])"},
    {.name = "json_schema", .instead = "give 'structured_outputs'"},
    {.name = "regex", .instead = "give 'structured_outputs'"},
    {.name = "ebnf", .instead = "give 'structured_outputs'"},
    {.name = "typical_p", .accepted = "[1]"},
    {.name = "mirostat", .accepted = "[0]"},
    {.name = "repeat_penalty", .accepted = "[1]", .instead = "give 'repetition_penalty'"},
    {.name = "n_predict", .instead = "give 'max_tokens'"},
};

constexpr const char* kIgnored[] = {
    "store",      "metadata",     "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
    "prediction", "cache_prompt", "request_id",
};

ApiError not_supported(const UnsupportedField& field, const json& accepted) {
  std::string only;
  for (const json& value : accepted) {
    only += only.empty() ? ": only " : " or ";
    only += value.dump();
  }
  const bool has_hint = field.instead[0] != '\0';
  ApiError error = bad_field(field.name, "'{}' is not supported yet{}{}{}", field.name, only,
                             has_hint ? "; " : "", field.instead);
  error.code = "not_supported";
  return error;
}

// What another kind of call would obey: left out by most who set all fields there are.
bool asks_for_nothing(const json& value) {
  return value.is_null() || value == false ||
         ((value.is_structured() || value.is_string()) && value.empty());
}

MaybeError check_other_field(const std::string& name, const json& value, unsigned where,
                             std::int32_t n) {
  for (const UnsupportedField& field : kUnsupported) {
    if ((field.where & where) == 0 || name != field.name) continue;
    json accepted = json::parse(field.accepted);
    if (field.accepts_n) accepted.push_back(n);
    if (value.is_null() || std::find(accepted.begin(), accepted.end(), value) != accepted.end()) {
      return std::nullopt;
    }
    return not_supported(field, accepted);
  }
  if (std::find(std::begin(kIgnored), std::end(kIgnored), std::string_view(name)) !=
      std::end(kIgnored)) {
    return std::nullopt;
  }
  const auto fields = request_fields();
  const bool elsewhere = std::any_of(fields.begin(), fields.end(),
                                     [&](const RequestField& field) { return name == field.name; });
  if (!elsewhere) {
    warn_unknown_field(where == kChat ? "chat" : "completions", name);
    return std::nullopt;
  }
  if (asks_for_nothing(value)) return std::nullopt;
  ApiError error = bad_field(name, "'{}' is a field of /v1/{}, not of this call", name,
                             where == kChat ? "completions" : "chat/completions");
  error.code = "not_supported";
  return error;
}

}  // namespace

std::span<const UnsupportedField> unsupported_fields() {
  return kUnsupported;
}

std::span<const char* const> ignored_fields() {
  return kIgnored;
}

json schema_of(const UnsupportedField& field) {
  std::string summary = "Not supported yet";
  if (field.accepts_n) summary += ": only the value of n";
  if (field.instead[0] != '\0') summary += std::string("; ") + field.instead;
  json schema{{"description", summary}};
  if (field.accepts_n) return schema;
  json accepted = json::parse(field.accepted);
  accepted.push_back(nullptr);
  schema["enum"] = std::move(accepted);
  return schema;
}

MaybeError check_other_fields(const json& body, unsigned where, std::int32_t n) {
  const auto fields = request_fields();
  for (auto entry = body.begin(); entry != body.end(); ++entry) {
    const std::string& name = entry.key();
    const bool known = std::any_of(fields.begin(), fields.end(), [&](const RequestField& field) {
      return (field.where & where) != 0 && name == field.name;
    });
    if (known) continue;
    if (auto error = check_other_field(name, entry.value(), where, n)) return error;
  }
  return std::nullopt;
}

}  // namespace tandem
