// The options of completions and chat requests: one table that the parser obeys, the error
// messages quote and /openapi.json prints.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/server/tool_calls/tool_constraint.h"
#include "engine/service/generation.h"
#include "engine/tokenizer/jinja/chat_template.h"
#include "engine/tokenizer/jinja/chat_templates.h"

namespace tandem {

struct Prompt {
  std::optional<std::string> text;  // else tokens
  std::vector<TokenId> tokens;
};

// A completions or chat request as its fields say it; not yet tokenized.
struct CompletionCall {
  bool chat = false;
  std::string model;            // empty: the base
  std::vector<Prompt> prompts;  // completions
  ChatInput chat_input;         // chat
  std::string chat_template;    // chat: the request's own; empty: it has none
  // Chat: the adapter's own; null: it has none. Filled in when the adapter is known.
  std::shared_ptr<const ChatTemplates> adapter_templates;
  std::optional<bool> add_generation_prompt;  // chat: as asked
  ToolUse tool_use;                           // chat
  GenerationRequest request;                  // all but adapter, prompt and max_tokens
  std::string constraint_field;               // that the request's constraint is from; empty: none
  std::vector<std::string> bad_words;         // not yet tokenized
  std::optional<std::int32_t> max_tokens;
  // The last so many tokens of each prompt are taken; -1: as many as the context has room for.
  std::optional<std::int32_t> truncate_prompt_tokens;
  bool echo = false;
  bool stream = false;
  bool include_usage = false;
  bool usage_in_each_chunk = false;
  bool has_stream_options = false;
  bool logprobs = false;
  std::int32_t top_logprobs = 0;
  bool has_top_logprobs = false;
};

inline constexpr unsigned kCompletions = 1;
inline constexpr unsigned kChat = 2;
inline constexpr unsigned kTokenize = 4;  // of a conversation

struct RequestField {
  enum class Kind { boolean, integer, number, text, other };

  const char* name;
  unsigned where;  // kCompletions | kChat | kTokenize
  Kind kind;
  // integer, number
  double min = 0;
  double max = 0;
  bool above_min = false;  // min itself is out
  // other: what is right, as in "must be ...", and its JSON schema
  const char* rule = "";
  const char* schema = "";
  const char* summary;
  // Takes a value that the kind's check has passed (an integer as int64). Kind other: judges the
  // value itself; false: it breaks the rule. `reason`, when set, is told with the rule.
  bool (*take)(const nlohmann::json& value, CompletionCall& call, std::string& reason) = nullptr;
  // Instead, of what a template sees: the order of members counts. Judges the value itself.
  bool (*take_in_order)(nlohmann::ordered_json& value, ChatInput& chat,
                        std::string& reason) = nullptr;
  // Instead, of what the text must be: likewise.
  bool (*take_constraint)(const nlohmann::ordered_json& value, CompletionCall& call,
                          std::string& reason) = nullptr;

  bool reads_order() const { return take_in_order != nullptr || take_constraint != nullptr; }
};

// The bound of a field of 64 bits, which is compared as an integer.
inline constexpr double kMaxInt64 = 9223372036854775807.0;

std::span<const RequestField> request_fields();
// "a number from 0 to 2"
std::string rule_of(const RequestField& field);
nlohmann::json schema_of(const RequestField& field);

// A JSON number that is an integer (16 or 16.0) and fits; nothing otherwise.
std::optional<std::int64_t> as_integer(const nlohmann::json& value);

}  // namespace tandem
