#include "engine/server/messages/request_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "engine/server/messages/chat_fields.h"
#include "engine/server/messages/constraint_fields.h"
#include "engine/server/messages/tool_fields.h"

namespace tandem {
namespace {

using nlohmann::json;
using Kind = RequestField::Kind;

constexpr double kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr double kMinInt32 = std::numeric_limits<std::int32_t>::min();
constexpr double kInt64 = 9223372036854775807.0;  // read_field() compares as integers
constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr unsigned kBoth = kCompletions | kChat;
constexpr unsigned kConversation = kChat | kTokenize;

std::int32_t int32(const json& value) {
  return static_cast<std::int32_t>(value.get<std::int64_t>());
}

std::optional<TokenId> as_token(const json& value) {
  const auto id = as_integer(value);
  if (!id || *id < 0 || *id > std::numeric_limits<TokenId>::max()) return std::nullopt;
  return static_cast<TokenId>(*id);
}

bool take_tokens(const json& list, std::vector<TokenId>& tokens) {
  tokens.reserve(list.size());
  for (const json& entry : list) {
    const auto id = as_token(entry);
    if (!id) return false;
    tokens.push_back(*id);
  }
  return true;
}

bool take_prompt(const json& value, CompletionCall& call, std::string&) {
  if (value.is_string()) {
    call.prompts.push_back({value.get<std::string>(), {}});
    return true;
  }
  if (!value.is_array() || value.empty()) return false;
  if (value.front().is_number()) {
    call.prompts.emplace_back();
    return take_tokens(value, call.prompts.back().tokens);
  }
  for (const json& entry : value) {
    Prompt prompt;
    if (entry.is_string()) {
      prompt.text = entry.get<std::string>();
    } else if (!entry.is_array() || entry.empty() || !take_tokens(entry, prompt.tokens)) {
      return false;
    }
    call.prompts.push_back(std::move(prompt));
  }
  return true;
}

bool take_stop(const json& value, CompletionCall& call, std::string&) {
  const json list = value.is_array() ? value : json::array({value});
  if (list.size() > kMaxStops) return false;
  for (const json& stop : list) {
    if (!stop.is_string()) return false;
    const auto& text = stop.get_ref<const std::string&>();
    if (text.empty() || text.size() > kMaxStopBytes) return false;
    call.request.stop.push_back(text);
  }
  return true;
}

bool take_logit_bias(const json& value, CompletionCall& call, std::string&) {
  if (!value.is_object()) return false;
  for (const auto& [key, bias] : value.items()) {
    TokenId id = -1;
    const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (failure != std::errc{} || end != key.data() + key.size() || id < 0) return false;
    if (!bias.is_number()) return false;
    const double number = bias.get<double>();
    if (!(number >= -100 && number <= 100)) return false;
    call.request.sampling.logit_bias.emplace_back(id, static_cast<float>(number));
  }
  return true;
}

bool take_stream_options(const json& value, CompletionCall& call, std::string& reason) {
  if (!value.is_object()) return false;
  call.has_stream_options = true;
  if (const auto often = value.find("continuous_usage_stats");
      often != value.end() && !often->is_null() && *often != false) {
    reason = "'continuous_usage_stats' is not supported yet";
    return false;
  }
  const auto found = value.find("include_usage");
  if (found == value.end() || found->is_null()) return true;
  if (!found->is_boolean()) return false;
  call.include_usage = found->get<bool>();
  return true;
}

#define TANDEM_TAKE(...)                                                                      \
  [](const json& value, CompletionCall& call, [[maybe_unused]] std::string& reason) -> bool { \
    __VA_ARGS__;                                                                              \
    return true;                                                                              \
  }

const RequestField kFields[] = {
    {.name = "model",
     .where = kBoth,
     .kind = Kind::text,
     .summary = "The base model or an adapter, by name; the base when absent",
     .take = TANDEM_TAKE(call.model = value.get<std::string>())},
    {.name = "prompt",
     .where = kCompletions,
     .kind = Kind::other,
     .rule = "a string, a non-empty list of strings, a non-empty list of token ids, or a list of "
             "such lists",
     .schema = R"({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}},
                   {"type": "array", "items": {"type": "integer", "minimum": 0}},
                   {"type": "array", "items": {"type": "array",
                    "items": {"type": "integer", "minimum": 0}}}]})",
     .summary = "What to continue; several prompts are answered in one response",
     .take = take_prompt},
    {.name = "messages",
     .where = kConversation,
     .kind = Kind::other,
     .rule = "a non-empty list of {\"role\": string, \"content\": string or list of "
             "{\"type\": \"text\", \"text\": string}}",
     .schema = R"({"type": "array", "minItems": 1, "items": {"type": "object",
                   "required": ["role"], "properties": {"role": {"type": "string"},
                   "content": {"oneOf": [{"type": "string"}, {"type": "null"},
                   {"type": "array", "items":
                   {"type": "object", "required": ["type", "text"], "properties":
                   {"type": {"const": "text"}, "text": {"type": "string"}}}}]}}}})",
     .summary = "The conversation so far, rendered by the checkpoint's chat template",
     .take_in_order = take_messages},
    {.name = "tools",
     .where = kConversation,
     .kind = Kind::other,
     .rule = "a list of {\"type\": \"function\", \"function\": {\"name\": string, ...}} or of "
             "such functions themselves",
     .schema = R"({"type": "array", "maxItems": 128, "items": {"type": "object"}})",
     .summary = "What the model may call",
     .take_in_order = take_tools},
    {.name = "tool_choice",
     .where = kChat,
     .kind = Kind::other,
     .rule =
         "\"auto\", \"none\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": "
         "string}}",
     .schema = R"({"oneOf": [{"enum": ["auto", "none", "required"]}, {"type": "object",
                   "required": ["type", "function"], "properties": {"type": {"const": "function"},
                   "function": {"type": "object", "required": ["name"],
                   "properties": {"name": {"type": "string"}}}}}]})",
     .summary = "Whether the model may call tools, must not, must call some, or must call this one",
     .take = take_tool_choice},
    {.name = "parallel_tool_calls",
     .where = kChat,
     .kind = Kind::boolean,
     .summary = "false: one call at most, the first; true when absent",
     .take = TANDEM_TAKE(call.tool_use.parallel = value.get<bool>())},
    {.name = "documents",
     .where = kConversation,
     .kind = Kind::other,
     .rule = "a list of objects",
     .schema = R"({"type": "array", "items": {"type": "object"}})",
     .summary = "What the model may read, for templates that know of documents",
     .take_in_order = take_documents},
    {.name = "chat_template_kwargs",
     .where = kConversation,
     .kind = Kind::other,
     .rule = "an object",
     .schema = R"({"type": "object"})",
     .summary = "Further variables of the template, as enable_thinking",
     .take_in_order = take_template_kwargs},
    {.name = "chat_template",
     .where = kConversation,
     .kind = Kind::text,
     .summary = "Renders the messages instead of the checkpoint's; the server must be set to trust "
                "templates of requests",
     .take = TANDEM_TAKE(call.chat_template = value.get<std::string>())},
    {.name = "add_generation_prompt",
     .where = kConversation,
     .kind = Kind::boolean,
     .summary = "Let the template open the answer; true when absent",
     .take = TANDEM_TAKE(call.add_generation_prompt = value.get<bool>())},
    {.name = "continue_final_message",
     .where = kConversation,
     .kind = Kind::boolean,
     .summary = "Go on with the last message's content instead of opening an answer",
     .take = TANDEM_TAKE(call.chat_input.continue_final_message = value.get<bool>())},
    {.name = "max_tokens",
     .where = kBoth,
     .kind = Kind::integer,
     .min = 0,
     .max = kMaxInt32,
     .summary = "At most so many new tokens each; 16 (completions) or the rest of the context "
                "(chat) when absent; 0 with echo only",
     .take = TANDEM_TAKE(if (!call.max_tokens) call.max_tokens = int32(value))},
    {.name = "max_completion_tokens",
     .where = kBoth,
     .kind = Kind::integer,
     .min = 0,
     .max = kMaxInt32,
     .summary = "The newer name of max_tokens; wins when both are given",
     .take = TANDEM_TAKE(call.max_tokens = int32(value))},
    {.name = "truncate_prompt_tokens",
     .where = kBoth,
     .kind = Kind::integer,
     .min = -1,
     .max = kMaxInt32,
     .summary = "Take the last so many tokens of each prompt; -1: as many as the context has room "
                "for beside the answer",
     .take = TANDEM_TAKE(if (value == 0) {
       reason = "0 would leave nothing";
       return false;
     } call.truncate_prompt_tokens = int32(value))},
    {.name = "min_tokens",
     .where = kBoth,
     .kind = Kind::integer,
     .min = 0,
     .max = kMaxInt32,
     .summary = "End tokens and stops do not count before so many tokens",
     .take = TANDEM_TAKE(call.request.min_tokens = int32(value))},
    {.name = "temperature",
     .where = kBoth,
     .kind = Kind::number,
     .min = 0,
     .max = 2,
     .summary = "0: the most likely token always",
     .take = TANDEM_TAKE(call.request.sampling.temperature = value.get<double>())},
    {.name = "top_p",
     .where = kBoth,
     .kind = Kind::number,
     .min = 0,
     .max = 1,
     .above_min = true,
     .summary = "Draw from the most likely tokens that together have this probability",
     .take = TANDEM_TAKE(call.request.sampling.top_p = value.get<double>())},
    {.name = "top_k",
     .where = kBoth,
     .kind = Kind::integer,
     .min = -1,
     .max = kMaxInt32,
     .summary = "Draw from so many most likely tokens; 0 or -1: all",
     .take = TANDEM_TAKE(call.request.sampling.top_k = std::max(0, int32(value)))},
    {.name = "min_p",
     .where = kBoth,
     .kind = Kind::number,
     .min = 0,
     .max = 1,
     .summary = "Leave out tokens less likely than this times the most likely",
     .take = TANDEM_TAKE(call.request.sampling.min_p = value.get<double>())},
    {.name = "presence_penalty",
     .where = kBoth,
     .kind = Kind::number,
     .min = -2,
     .max = 2,
     .summary = "Taken off the logit of every token generated before",
     .take = TANDEM_TAKE(call.request.sampling.presence_penalty = value.get<double>())},
    {.name = "frequency_penalty",
     .where = kBoth,
     .kind = Kind::number,
     .min = -2,
     .max = 2,
     .summary = "Taken off a token's logit once for each time it was generated before",
     .take = TANDEM_TAKE(call.request.sampling.frequency_penalty = value.get<double>())},
    {.name = "repetition_penalty",
     .where = kBoth,
     .kind = Kind::number,
     .min = 0,
     .max = 2,
     .above_min = true,
     .summary = "Divides positive and multiplies negative logits of tokens of prompt and answer",
     .take = TANDEM_TAKE(call.request.sampling.repetition_penalty = value.get<double>())},
    {.name = "logit_bias",
     .where = kBoth,
     .kind = Kind::other,
     .rule = "an object of token ids (as strings) and numbers from -100 to 100",
     .schema = R"({"type": "object", "additionalProperties":
                   {"type": "number", "minimum": -100, "maximum": 100}})",
     .summary = "Added to the logits of these tokens",
     .take = take_logit_bias},
    {.name = "seed",
     .where = kBoth,
     .kind = Kind::integer,
     .min = -kInt64,
     .max = kInt64,
     .summary = "The same seed, request and model give the same answer",
     .take = TANDEM_TAKE(call.request.sampling.seed =
                             static_cast<std::uint64_t>(value.get<std::int64_t>()))},
    {.name = "stop",
     .where = kBoth,
     .kind = Kind::other,
     .rule = "a non-empty string of at most 1024 bytes, or a list of at most 16 such",
     .schema = R"({"oneOf": [{"type": "string", "minLength": 1}, {"type": "array",
                   "maxItems": 16, "items": {"type": "string", "minLength": 1}}]})",
     .summary = "The answer ends before any of these",
     .take = take_stop},
    {.name = "stop_token_ids",
     .where = kBoth,
     .kind = Kind::other,
     .rule = "a list of token ids",
     .schema = R"({"type": "array", "items": {"type": "integer", "minimum": 0}})",
     .summary = "The answer ends at any of these",
     .take =
         TANDEM_TAKE(return value.is_array() && take_tokens(value, call.request.stop_token_ids))},
    {.name = "allowed_token_ids",
     .where = kBoth,
     .kind = Kind::other,
     .rule = "a non-empty list of token ids",
     .schema = R"({"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}})",
     .summary = "No other token is generated",
     .take = TANDEM_TAKE(return value.is_array() && !value.empty() &&
                                take_tokens(value, call.request.sampling.allowed_token_ids))},
    {.name = "bad_words",
     .where = kBoth,
     .kind = Kind::other,
     .rule = "a list of at most 256 non-empty strings of at most 256 bytes",
     .schema = R"({"type": "array", "maxItems": 256, "items": {"type": "string", "minLength": 1}})",
     .summary = "Words that are not generated",
     .take = take_bad_words},
    {.name = "response_format",
     .where = kBoth,
     .kind = Kind::other,
     .rule = "{\"type\": \"text\"}, {\"type\": \"json_object\"}, or {\"type\": \"json_schema\", "
             "\"json_schema\": {\"name\": string, \"schema\": object}}",
     .schema = R"({"type": "object", "required": ["type"], "properties": {
                   "type": {"enum": ["text", "json_object", "json_schema", "structural_tag"]},
                   "json_schema": {"type": "object", "required": ["name", "schema"], "properties": {
                   "name": {"type": "string"}, "schema": {"type": "object"},
                   "strict": {"type": ["boolean", "null"]}}}}})",
     .summary = "What the text must be, as OpenAI has it",
     .take_constraint = take_response_format},
    {.name = "structured_outputs",
     .where = kBoth,
     .kind = Kind::other,
     .rule = "an object with one of 'json' (a schema), 'regex', 'choice' (a list of strings), "
             "'grammar', 'json_object' (true) and 'structural_tag'",
     .schema = R"({"type": "object", "maxProperties": 1, "properties": {
                   "json": {"type": ["object", "string"]}, "regex": {"type": "string"},
                   "choice": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                   "grammar": {"type": "string"}, "json_object": {"const": true},
                   "structural_tag": {"type": ["object", "string"]}}})",
     .summary = "What the text must be, as vLLM has it",
     .take_constraint = take_structured_outputs},
    {.name = "guided_json",
     .where = kBoth,
     .kind = Kind::other,
     .rule = "a JSON schema, as an object or a string",
     .schema = R"({"oneOf": [{"type": "object"}, {"type": "string"}]})",
     .summary = "The older name of structured_outputs.json",
     .take_constraint = take_guided_json},
    {.name = "guided_regex",
     .where = kBoth,
     .kind = Kind::other,
     .rule = "a non-empty string",
     .schema = R"({"type": "string", "minLength": 1})",
     .summary = "The older name of structured_outputs.regex",
     .take_constraint = take_guided_regex},
    {.name = "guided_choice",
     .where = kBoth,
     .kind = Kind::other,
     .rule = "a list of 1 to 1024 non-empty strings",
     .schema = R"({"type": "array", "minItems": 1, "maxItems": 1024,
                   "items": {"type": "string", "minLength": 1}})",
     .summary = "The older name of structured_outputs.choice",
     .take_constraint = take_guided_choice},
    {.name = "guided_grammar",
     .where = kBoth,
     .kind = Kind::other,
     .rule = "a non-empty string",
     .schema = R"({"type": "string", "minLength": 1})",
     .summary = "The older name of structured_outputs.grammar",
     .take_constraint = take_guided_grammar},
    {.name = "ignore_eos",
     .where = kBoth,
     .kind = Kind::boolean,
     .summary = "Go on after the model's end token",
     .take = TANDEM_TAKE(call.request.ignore_eos = value.get<bool>())},
    {.name = "skip_special_tokens",
     .where = kBoth,
     .kind = Kind::boolean,
     .summary = "Leave special tokens out of the text; true when absent",
     .take = TANDEM_TAKE(call.request.skip_special_tokens = value.get<bool>())},
    {.name = "include_stop_str_in_output",
     .where = kBoth,
     .kind = Kind::boolean,
     .summary = "Keep the stop string at the end of the text",
     .take = TANDEM_TAKE(call.request.include_stop = value.get<bool>())},
    {.name = "n",
     .where = kBoth,
     .kind = Kind::integer,
     .min = 1,
     .max = 128,
     .summary = "Independent answers to each prompt",
     .take = TANDEM_TAKE(call.request.n = int32(value))},
    {.name = "logprobs",
     .where = kCompletions,
     .kind = Kind::integer,
     .min = 0,
     .max = 20,
     .summary = "Tell the log probability of each token and of so many most likely ones",
     .take = TANDEM_TAKE(call.logprobs = true; call.top_logprobs = int32(value))},
    {.name = "logprobs",
     .where = kChat,
     .kind = Kind::boolean,
     .summary = "Tell the log probability of each token",
     .take = TANDEM_TAKE(call.logprobs = value.get<bool>())},
    {.name = "top_logprobs",
     .where = kChat,
     .kind = Kind::integer,
     .min = 0,
     .max = 20,
     .summary = "And of so many most likely ones; needs logprobs",
     .take = TANDEM_TAKE(call.has_top_logprobs = true; call.top_logprobs = int32(value))},
    {.name = "echo",
     .where = kCompletions,
     .kind = Kind::boolean,
     .summary = "Put the prompt before the answer, with its log probabilities if asked for",
     .take = TANDEM_TAKE(call.echo = value.get<bool>())},
    {.name = "stream",
     .where = kBoth,
     .kind = Kind::boolean,
     .summary = "Send the answer as it is made, by server-sent events",
     .take = TANDEM_TAKE(call.stream = value.get<bool>())},
    {.name = "stream_options",
     .where = kBoth,
     .kind = Kind::other,
     .rule = "an object with the boolean include_usage",
     .schema = R"({"type": "object", "properties": {"include_usage": {"type": "boolean"}}})",
     .summary = "include_usage: a last chunk tells the usage; needs stream",
     .take = take_stream_options},
    {.name = "user",
     .where = kBoth,
     .kind = Kind::text,
     .summary = "Accepted and not used",
     .take = TANDEM_TAKE((void)value; (void)call)},
    {.name = "priority",
     .where = kBoth,
     .kind = Kind::integer,
     .min = kMinInt32,
     .max = kMaxInt32,
     .summary = "Lower goes first among the waiting",
     .take = TANDEM_TAKE(call.request.priority = int32(value))},
};

#undef TANDEM_TAKE

}  // namespace

std::span<const RequestField> request_fields() {
  return kFields;
}

std::string rule_of(const RequestField& field) {
  switch (field.kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::text:
      return "a string";
    case Kind::other:
      return field.rule;
    case Kind::integer:
    case Kind::number:
      break;
  }
  const char* what = field.kind == Kind::integer ? "an integer" : "a number";
  if (field.max == kInt64) return "an integer of 64 bits";
  return field.above_min
             ? fmt::format("{} above {:.15g} and up to {:.15g}", what, field.min, field.max)
             : fmt::format("{} from {:.15g} to {:.15g}", what, field.min, field.max);
}

json schema_of(const RequestField& field) {
  json schema = field.kind == Kind::other     ? json::parse(field.schema)
                : field.kind == Kind::boolean ? json{{"type", "boolean"}}
                : field.kind == Kind::text    ? json{{"type", "string"}}
                : field.kind == Kind::integer ? json{{"type", "integer"}}
                                              : json{{"type", "number"}};
  if (field.kind == Kind::integer && field.max == kInt64) {
    schema["format"] = "int64";
  } else if (field.kind == Kind::integer) {
    schema["minimum"] = static_cast<std::int64_t>(field.min);
    schema["maximum"] = static_cast<std::int64_t>(field.max);
  } else if (field.kind == Kind::number) {
    schema[field.above_min ? "exclusiveMinimum" : "minimum"] = field.min;
    schema["maximum"] = field.max;
  }
  schema["description"] = field.summary;
  return schema;
}

std::optional<std::int64_t> as_integer(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it a double skips integers
  if (!(std::abs(number) <= kExact) || number != std::trunc(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace tandem
