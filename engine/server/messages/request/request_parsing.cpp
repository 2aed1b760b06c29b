#include "engine/server/messages/request/request_parsing.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <mutex>
#include <set>

#include "base/check.h"
#include "base/json/json_release.h"
#include "base/limits/bytes_text.h"
#include "base/log/log.h"
#include "engine/server/messages/ordered_json.h"
#include "engine/server/messages/request/chat_fields.h"
#include "engine/server/messages/request/tool_fields.h"
#include "engine/server/messages/request/unsupported_fields.h"

namespace tandem {
namespace {

using nlohmann::json;
using Ordered = nlohmann::ordered_json;
using Kind = RequestField::Kind;

// The limit for a request's own template. Published templates have up to 30 KB, and a parsed
// template takes a few hundred times its size.
constexpr std::size_t kMaxTemplateBytes = 128U << 10;

ApiError broken_rule(const RequestField& field, const std::string& reason) {
  return bad_field(field.name, "'{}' must be {}{}{}", field.name, rule_of(field),
                   reason.empty() ? "" : ": ", reason);
}

MaybeError take_field(const RequestField& field, const json& value, CompletionCall& call) {
  json integer;  // the value of a number written as 16.0
  bool good = true;
  std::string reason;
  if (field.kind == Kind::boolean) {
    good = value.is_boolean();
  } else if (field.kind == Kind::text) {
    good = value.is_string();
  } else if (field.kind == Kind::number) {
    const double number = value.is_number() ? value.get<double>() : -1e300;
    good = number <= field.max && (field.above_min ? number > field.min : number >= field.min);
  } else if (field.kind == Kind::integer) {
    const auto number = as_integer(value);
    // Doubles represent 32-bit limits exactly; the limits of 64-bit fields are those of int64
    // itself.
    good = number && static_cast<double>(*number) >= field.min &&
           static_cast<double>(*number) <= field.max;
    if (good) integer = *number;
  }
  if (good) good = field.take(integer.is_null() ? value : integer, call, reason);
  if (good) return std::nullopt;
  return broken_rule(field, reason);
}

// Takes all fields of a call that the body has.
MaybeError take_fields(const json& body, unsigned where, const ConversationRules& rules,
                       CompletionCall& call) {
  std::vector<std::string_view> in_order;
  for (const RequestField& field : request_fields()) {
    if ((field.where & where) != 0 && field.reads_order() && body.contains(field.name)) {
      in_order.push_back(field.name);
    }
  }
  Ordered ordered = in_order.empty()      ? Ordered::object()
                    : rules.bytes.empty() ? Ordered(body)
                                          : parse_members_in_order(rules.bytes, in_order);
  const EmptiedFromLeaves at_end(ordered);
  for (const RequestField& field : request_fields()) {
    if ((field.where & where) == 0) continue;
    const auto found = body.find(field.name);
    if (found == body.end() || found->is_null()) continue;
    if (!field.reads_order()) {
      if (auto error = take_field(field, *found, call)) return error;
      continue;
    }
    std::string reason;
    const auto value = ordered.find(field.name);
    const bool good =
        value != ordered.end() &&
        (field.take_in_order != nullptr ? field.take_in_order(*value, call.chat_input, reason)
                                        : field.take_constraint(*value, call, reason));
    if (!good) return broken_rule(field, reason);
  }
  return std::nullopt;
}

// Checks the options of the rendering, after the fields that they depend on.
MaybeError check_conversation(const ConversationRules& rules, CompletionCall& call) {
  if (!call.chat) return std::nullopt;
  if (!call.chat_template.empty() && !rules.trust_chat_template) {
    return bad_field("chat_template",
                     "'chat_template': this server renders by the checkpoint's template alone "
                     "(--trust-request-chat-template lets requests bring their own)");
  }
  if (call.chat_template.size() > kMaxTemplateBytes) {
    return bad_field("chat_template", "'chat_template' has {}, more than the {} allowed",
                     size_text(call.chat_template.size()), size_text(kMaxTemplateBytes));
  }
  ChatInput& chat = call.chat_input;
  if (chat.continue_final_message && call.add_generation_prompt.value_or(false)) {
    return bad_field("continue_final_message",
                     "'continue_final_message' goes on with the last message, "
                     "'add_generation_prompt' opens a new one: give one of them");
  }
  chat.add_generation_prompt = call.add_generation_prompt.value_or(!chat.continue_final_message);
  complete_variables(chat);
  return std::nullopt;
}

MaybeError check_together(const json& body, const CompletionCall& call,
                          std::int32_t max_sequences) {
  if (call.chat && call.chat_input.messages.empty()) {
    return bad_field("messages", "'messages' is required: a non-empty list");
  }
  if (!call.chat && call.prompts.empty()) {
    return bad_field("prompt", "'prompt' is required: a string, strings, or token ids");
  }
  if (call.has_top_logprobs && call.top_logprobs > 0 && !call.logprobs) {
    return bad_field("top_logprobs", "'top_logprobs' needs 'logprobs': true");
  }
  if (call.has_stream_options && !call.stream) {
    return bad_field("stream_options", "'stream_options' needs 'stream': true");
  }
  const bool renamed =
      body.contains("max_completion_tokens") && !body["max_completion_tokens"].is_null();
  const char* max_tokens = renamed ? "max_completion_tokens" : "max_tokens";
  if (call.max_tokens == 0 && !call.echo) {
    return bad_field(max_tokens, "'{}' must be at least 1 (0 with 'echo' only)", max_tokens);
  }
  if (call.max_tokens && call.request.min_tokens > *call.max_tokens) {
    return bad_field("min_tokens", "'min_tokens' ({}) must not exceed '{}' ({})",
                     call.request.min_tokens, max_tokens, *call.max_tokens);
  }
  const std::size_t prompts = std::max<std::size_t>(1, call.prompts.size());
  const std::size_t sequences = prompts * static_cast<std::size_t>(call.request.n);
  if (sequences > static_cast<std::size_t>(max_sequences)) {
    return bad_field(
        "n", "{} prompts by 'n' of {}: {} is more than the {} answers that one request may ask for",
        prompts, call.request.n, sequences, max_sequences);
  }
  return std::nullopt;
}

MaybeError check_ids(const std::vector<TokenId>& ids, const TextCodec& text, const char* param) {
  for (const TokenId id : ids) {
    if (static_cast<std::size_t>(id) >= text.vocab_size()) {
      return bad_field(param, "'{}' has the token id {}; this model's ids go from 0 to {}", param,
                       id, text.vocab_size() - 1);
    }
  }
  return std::nullopt;
}

// Returns the tokens of `word` in the middle of a text without a space before it.
// SentencePiece-style tokenizers put a space before a text's first word, but not after a line
// break, so the word is encoded after one. Empty: it cannot be isolated.
Result<std::vector<TokenId>> encode_behind_line(const std::string& word, const TextCodec& text) {
  TANDEM_ASSIGN(const std::vector<TokenId> line, text.encode("\n", false));
  TANDEM_ASSIGN(std::vector<TokenId> both, text.encode("\n" + word, false));
  const bool starts = std::ranges::mismatch(line, both).in1 == line.end();
  if (!starts) return std::vector<TokenId>();
  both.erase(both.begin(), both.begin() + std::ssize(line));
  return both;
}

// Encodes each word in the forms at the beginning of a text, after a space, and after a line break.
// Forms that end with the tokens of another form need no ban of their own.
MaybeError encode_bad_words(const CompletionCall& call, const TextCodec& text,
                            std::vector<std::vector<TokenId>>& words) {
  for (const std::string& word : call.bad_words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(" \t\n"), word.size()));
    std::vector<std::vector<TokenId>> forms;
    for (auto form : {text.encode(bare, false), encode_behind_line(bare, text),
                      text.encode(" " + bare, false)}) {
      if (!form) return to_api_error(form.status());
      if (bare.empty() || (forms.empty() && form->empty())) {
        return bad_field("bad_words", "'bad_words': {} is no word", json(word).dump());
      }
      const bool is_banned = std::ranges::any_of(forms, [&](const std::vector<TokenId>& other) {
        return other.size() <= form->size() &&
               std::equal(other.rbegin(), other.rend(), form->rbegin());
      });
      if (!form->empty() && !is_banned) forms.push_back(std::move(*form));
    }
    words.insert(words.end(), std::make_move_iterator(forms.begin()),
                 std::make_move_iterator(forms.end()));
  }
  return std::nullopt;
}

// Puts the first texts of pairs, which `field` has, before the second ones.
MaybeError pair_up(const char* field, CompletionCall& call) {
  std::vector<Prompt>& firsts = call.score.firsts;
  if (firsts.empty()) return bad_field(field, "'{}' is required", field);
  if (firsts.size() != 1 && firsts.size() != call.prompts.size()) {
    return bad_field(field, "'{}' has {} texts and '{}' has {}: give one, or as many", field,
                     firsts.size(), call.prompt_field, call.prompts.size());
  }
  std::shared_ptr<const std::string> first;
  for (std::size_t i = 0; i < call.prompts.size(); ++i) {
    if (i < firsts.size()) first = std::make_shared<const std::string>(*std::move(firsts[i].text));
    call.prompts[i].first = first;
  }
  return std::nullopt;
}

constexpr std::int32_t kCompletionsDefault = 16;  // OpenAI's default for new tokens

// Truncates the prompt to its last tokens if the request asks for it.
MaybeError truncate(const CompletionCall& call, std::int32_t max_model_len,
                    std::vector<TokenId>& prompt) {
  if (!call.truncate_prompt_tokens) return std::nullopt;
  std::int32_t kept = *call.truncate_prompt_tokens;
  if (kept > max_model_len) {
    return bad_field(
        "truncate_prompt_tokens",
        "'truncate_prompt_tokens' is {}, but this model's context is {} tokens; -1 takes "
        "as many as there is room for",
        kept, max_model_len);
  }
  if (kept < 0) {
    const std::int32_t answer = call.max_tokens.value_or(call.chat ? 1 : kCompletionsDefault);
    kept = max_model_len - std::min(answer, max_model_len - 1);
  }
  const auto size = static_cast<std::ptrdiff_t>(prompt.size());
  if (size > kept) prompt.erase(prompt.begin(), prompt.end() - kept);
  return std::nullopt;
}

}  // namespace

void warn_unknown_field(std::string_view call, std::string_view field) {
  constexpr std::size_t kMaxNames = 256;  // a limit, because names come from clients
  constexpr std::size_t kMaxNameBytes = 64;
  static std::mutex mutex;
  static std::set<std::string, std::less<>> warned;
  {
    const std::lock_guard lock(mutex);
    if (warned.size() >= kMaxNames || !warned.emplace(field.substr(0, kMaxNameBytes)).second)
      return;
  }
  // Escaped as JSON, so that a name cannot inject lines into the log.
  const json name = std::string(field.substr(0, kMaxNameBytes));
  log::warning("{}: the unknown field {} is ignored (said once)", call,
               name.dump(-1, ' ', true, json::error_handler_t::replace));
}

MaybeError parse_call(const json& body, bool chat, std::int32_t max_sequences, CompletionCall& call,
                      const ConversationRules& rules) {
  call.chat = chat;
  const unsigned where = chat ? kChat : kCompletions;
  if (auto error = take_fields(body, where, rules, call)) return error;
  if (auto error = check_other_fields(body, where, call.request.n)) return error;
  if (auto error = check_tools(call)) return error;
  call.request.num_logprobs = call.logprobs ? call.top_logprobs : -1;
  call.request.prompt_logprobs = call.echo && call.logprobs;
  if (auto error = check_together(body, call, max_sequences)) return error;
  return check_conversation(rules, call);
}

MaybeError parse_pooled(const json& body, unsigned where, std::int32_t max_sequences,
                        CompletionCall& call) {
  call.prompt_field = where == kScore ? "text_2" : where == kRerank ? "documents" : "input";
  call.request.pooling = where == kEmbeddings ? Pooling::last
                         : where == kClassify ? Pooling::classes
                                              : Pooling::score;
  call.score.return_documents = where == kRerank;
  if (auto error = take_fields(body, where, {}, call)) return error;
  if (auto error = check_other_fields(body, where, 1)) return error;
  call.max_tokens = 0;
  if (call.prompts.empty()) {
    return bad_field(call.prompt_field, "'{}' is required: it has the texts", call.prompt_field);
  }
  if (call.prompts.size() > static_cast<std::size_t>(max_sequences)) {
    return bad_field(call.prompt_field,
                     "'{}' has {} texts, more than the {} that one request may have",
                     call.prompt_field, call.prompts.size(), max_sequences);
  }
  if (where == kScore || where == kRerank)
    return pair_up(where == kScore ? "text_1" : "query", call);
  return std::nullopt;
}

MaybeError parse_conversation(const json& body, const ConversationRules& rules,
                              CompletionCall& call) {
  call.chat = true;
  if (auto error = take_fields(body, kTokenize, rules, call)) return error;
  return check_conversation(rules, call);
}

MaybeError take_sampling_default(std::string_view name, const json& value,
                                 SamplingParams& sampling) {
  const auto field = std::ranges::find_if(
      request_fields(), [&](const RequestField& each) { return each.name == name; });
  TANDEM_CHECK(field != request_fields().end(), "no field '{}'", name);
  CompletionCall call;
  call.request.sampling = sampling;
  if (auto error = take_field(*field, value, call)) return error;
  sampling = std::move(call.request.sampling);
  return std::nullopt;
}

MaybeError check_context(std::size_t num_tokens, bool no_new_tokens, std::int32_t max_model_len,
                         std::string_view param) {
  const auto limit = static_cast<std::size_t>(max_model_len) - (no_new_tokens ? 0 : 1);
  if (num_tokens <= limit) return std::nullopt;
  return ApiError{
      400,
      // Clients recognize the error by the beginning of OpenAI's message.
      fmt::format(
          "This model's maximum context length is {} tokens, answer included. However, '{}' "
          "has {} tokens: shorten it, or cut it by 'truncate_prompt_tokens'",
          max_model_len, param, num_tokens),
      std::string(param), "context_length_exceeded", 0};
}

MaybeError encode_chat(const CompletionCall& call, const TextCodec& text,
                       std::vector<TokenId>& tokens) {
  const ChatSource source{call.chat_template, call.adapter_templates.get()};
  if (source.request.empty() && source.adapter == nullptr && !text.has_chat_template()) {
    return ApiError{400,
                    "This checkpoint has no chat template; use /v1/completions, or add a "
                    "chat_template.jinja to its folder or that of the adapter, or start the server "
                    "with --chat-template FILE",
                    "messages", "no_chat_template", 0};
  }
  auto rendered = text.render_chat(call.chat_input, source);
  if (!rendered) {
    ApiError error = to_api_error(rendered.status().with_context("the chat template"));
    if (error.status == 400)
      error.param = call.chat_template.empty() ? "messages" : "chat_template";
    return error;
  }
  auto encoded = text.encode_chat(*rendered);
  if (!encoded) return to_api_error(encoded.status());
  tokens = std::move(*encoded);
  return std::nullopt;
}

MaybeError make_requests(const CompletionCall& call, const TextCodec& text,
                         std::int32_t max_model_len, std::vector<GenerationRequest>& requests) {
  if (auto error = check_ids(call.request.stop_token_ids, text, "stop_token_ids")) return error;
  for (const auto& [id, bias] : call.request.sampling.logit_bias) {
    if (auto error = check_ids({id}, text, "logit_bias")) return error;
  }
  if (auto error = check_ids(call.request.sampling.allowed_token_ids, text, "allowed_token_ids")) {
    return error;
  }
  std::vector<std::vector<TokenId>> bad_words;
  if (auto error = encode_bad_words(call, text, bad_words)) return error;
  const char* param = call.chat ? "messages" : call.prompt_field;
  const std::size_t num_prompts = call.chat ? 1 : call.prompts.size();
  std::size_t pair_bytes = 0;  // one of the texts is often the same, and read with each of many
  for (std::size_t i = 0; i < num_prompts; ++i) {
    GenerationRequest request = call.request;
    request.sampling.bad_words = bad_words;
    if (call.chat) {
      if (auto error = encode_chat(call, text, request.prompt)) return error;
    } else if (const Prompt& prompt = call.prompts[i]; prompt.text) {
      constexpr std::size_t kMostPairBytes = std::size_t{8} << 20;
      if (prompt.first != nullptr) pair_bytes += prompt.first->size() + prompt.text->size();
      if (pair_bytes > kMostPairBytes) {
        return bad_field(param, "the texts of all pairs have more than {} MB together",
                         kMostPairBytes >> 20);
      }
      auto encoded = prompt.first != nullptr ? text.encode_pair(*prompt.first, *prompt.text)
                                             : text.encode(*prompt.text, true);
      if (!encoded) return to_api_error(encoded.status());
      request.prompt = std::move(*encoded);
    } else {
      if (auto error = check_ids(prompt.tokens, text, param)) return error;
      request.prompt = prompt.tokens;
    }
    if (request.prompt.empty()) return bad_field(param, "'{}' has no tokens", param);
    if (auto error = truncate(call, max_model_len, request.prompt)) return error;
    if (auto error =
            check_context(request.prompt.size(), call.max_tokens == 0, max_model_len, param)) {
      return error;
    }
    const auto room = max_model_len - static_cast<std::int32_t>(request.prompt.size());
    request.max_tokens =
        std::min(call.max_tokens.value_or(call.chat ? room : kCompletionsDefault), room);
    request.min_tokens = std::min(request.min_tokens, request.max_tokens);
    requests.push_back(std::move(request));
  }
  return std::nullopt;
}

}  // namespace tandem
