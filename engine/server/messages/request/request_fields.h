// The options of requests for completions, chats, embeddings and scores, in one table that the
// parser, the error messages and /openapi.json use.
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
  std::optional<std::string> text;  // set or else `tokens` is used
  std::vector<TokenId> tokens = {};
  // The first text of a pair, whose second is `text`; prompts share it. Null: there is none.
  std::shared_ptr<const std::string> first = nullptr;
};

// How an embedding is returned.
struct EmbeddingForm {
  std::int32_t dimensions = 0;  // the first numbers of the state; 0: all
  bool base64 = false;          // in place of a list of numbers
  bool normalize = true;        // to the length 1, after the cut to `dimensions`
};

// How the numbers of a score head are returned.
struct ScoreForm {
  bool use_activation = true;     // as probabilities
  std::vector<Prompt> firsts;     // of pairs, whose second texts are the prompts; one, or as many
  std::int32_t top_n = 0;         // of a ranking: the best so many; 0: all
  bool return_documents = false;  // in a ranking
};

// The fields of a request, not tokenized yet. `prompts` are those of all calls but chats.
struct CompletionCall {
  bool chat = false;
  std::string model;                    // empty: the base model
  std::vector<Prompt> prompts;          // completions, embeddings
  const char* prompt_field = "prompt";  // that the prompts come from, for messages
  ChatInput chat_input;                 // chat
  std::string chat_template;            // chat: from the request; empty: none
  // Chat: from the adapter, set when the adapter is known; null: none.
  std::shared_ptr<const ChatTemplates> adapter_templates;
  std::optional<bool> add_generation_prompt;  // chat: from the request
  ToolUse tool_use;                           // chat
  GenerationRequest request;                  // except prompt and max_tokens
  std::string constraint_field;               // that set the request's constraint; empty: none
  std::vector<std::string> bad_words;         // not tokenized yet
  std::optional<std::int32_t> max_tokens;
  // Truncates each prompt to its last tokens; -1: to as many as the context has room for.
  std::optional<std::int32_t> truncate_prompt_tokens;
  bool echo = false;
  bool stream = false;
  bool include_usage = false;
  bool usage_in_each_chunk = false;
  bool has_stream_options = false;
  bool logprobs = false;
  std::int32_t top_logprobs = 0;
  bool has_top_logprobs = false;
  EmbeddingForm embedding;           // embeddings
  ScoreForm score;                   // classes, scores and rankings
  std::uint64_t pooled_numbers = 0;  // at most so many in each result
};

inline constexpr unsigned kCompletions = 1;
inline constexpr unsigned kChat = 2;
inline constexpr unsigned kTokenize = 4;  // for requests that render a conversation
inline constexpr unsigned kEmbeddings = 8;
inline constexpr unsigned kClassify = 16;
inline constexpr unsigned kScore = 32;
inline constexpr unsigned kRerank = 64;

struct RequestField {
  enum class Kind { boolean, integer, number, text, other };

  const char* name;
  unsigned where;  // some of the constants above
  Kind kind;
  // integer, number
  double min = 0;
  double max = 0;
  bool above_min = false;  // the range excludes min
  // For kind `other`: the rule, as in "must be ...", and its JSON schema.
  const char* rule = "";
  const char* schema = "";
  const char* summary;
  // Takes a value that the kind's check has accepted (an integer as int64). For kind `other` it
  // checks the value itself and returns false if it breaks the rule; `reason`, if set, is added to
  // the rule in the error message.
  bool (*take)(const nlohmann::json& value, CompletionCall& call, std::string& reason) = nullptr;
  // Used instead of `take` for values that templates see, in which the order of members matters.
  // Checks the value itself.
  bool (*take_in_order)(nlohmann::ordered_json& value, ChatInput& chat,
                        std::string& reason) = nullptr;
  // Used instead of `take` for constraints, likewise.
  bool (*take_constraint)(const nlohmann::ordered_json& value, CompletionCall& call,
                          std::string& reason) = nullptr;

  bool reads_order() const { return take_in_order != nullptr || take_constraint != nullptr; }
};

// The bound of 64-bit fields, which are compared as integers.
inline constexpr double kMaxInt64 = 9223372036854775807.0;

std::span<const RequestField> request_fields();
// Returns, for example, "a number from 0 to 2".
std::string rule_of(const RequestField& field);
nlohmann::json schema_of(const RequestField& field);

// Returns a JSON number that is an integer (16 or 16.0) and fits; nothing otherwise.
std::optional<std::int64_t> as_integer(const nlohmann::json& value);

}  // namespace tandem
