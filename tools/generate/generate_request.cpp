#include "tools/generate/generate_request.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "base/text/utf8.h"
#include "engine/server/messages/request/request_parsing.h"

namespace tandem {
namespace {

using nlohmann::json;

// Adds a numeric setting with the range that the REST field has.
template <typename T>
SettingsField& add_number(SettingsTable& table, T& member, const char* name, const char* help) {
  const auto field = std::ranges::find_if(request_fields(), [&](const RequestField& each) {
    return std::string_view(name) == each.name;
  });
  TANDEM_CHECK(field != request_fields().end(), "no field '{}'", name);
  return table.add(member, name, help).range(field->min, field->max).flag_only();
}

json body_of(const GenerateSettings& s, const std::string& prompt, std::int64_t seed) {
  json body = {{"max_tokens", s.max_tokens},
               {"min_tokens", s.min_tokens},
               {"temperature", s.temperature},
               {"top_p", s.top_p},
               {"top_k", s.top_k},
               {"min_p", s.min_p},
               {"repetition_penalty", s.repetition_penalty},
               {"presence_penalty", s.presence_penalty},
               {"frequency_penalty", s.frequency_penalty},
               {"stop", s.stop},
               {"ignore_eos", s.ignore_eos},
               {"seed", seed}};
  if (!s.chat) {
    body["prompt"] = prompt;
    return body;
  }
  json& messages = body["messages"] = json::array();
  if (!s.system.empty()) messages.push_back({{"role", "system"}, {"content", s.system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return body;
}

}  // namespace

void add_generate_settings(SettingsTable& table, GenerateSettings& s) {
  table.group("Prompt");
  table.add(s.prompt, "prompt", "prompt; default: standard input, without its last newline")
      .flag_only()
      .short_flag('p');
  table.add(s.chat, "chat", "treat the prompt as a user's message and apply the chat template")
      .flag_only();
  table.add(s.system, "system", "system message before the prompt; needs --chat").flag_only();
  table
      .add(s.adapter, "use_adapter",
           "adapter to use: a name from --adapters, a folder, or NAME=DIR")
      .flag_as("adapter")
      .meta("NAME|DIR")
      .flag_only();
  table.group("Output");
  table.add(s.json, "json", "print one JSON object at the end instead of the text").flag_only();
  add_number(table, s.max_tokens, "max_tokens", "most tokens of the answer");
  add_number(table, s.min_tokens, "min_tokens", "fewest tokens of the answer");
  table.add(s.stop, "stop", "text before which the answer ends; may be repeated").flag_only();
  table.add(s.ignore_eos, "ignore_eos", "continue after the model's end token").flag_only();
  table.group("Sampling");
  add_number(table, s.temperature, "temperature",
             "sampling temperature; 0: always the most likely token");
  add_number(table, s.top_p, "top_p",
             "sample from the most likely tokens that together have this probability");
  add_number(table, s.top_k, "top_k", "sample from the k most likely tokens; 0 or -1: all");
  add_number(table, s.min_p, "min_p",
             "drop tokens below this share of the most likely token's probability");
  add_number(table, s.repetition_penalty, "repetition_penalty",
             "above 1: tokens of the prompt and answer become less likely");
  add_number(table, s.presence_penalty, "presence_penalty",
             "amount subtracted from the logits of tokens in the answer so far");
  add_number(table, s.frequency_penalty, "frequency_penalty",
             "amount subtracted from a token's logit each time it occurs in the answer");
}

Result<CompletionCall> read_call(const GenerateSettings& settings, const std::string& prompt,
                                 std::int64_t seed) {
  if (!settings.system.empty() && !settings.chat) {
    return invalid("system: a system message belongs to a chat; add --chat");
  }
  for (const std::string& text : {prompt, settings.system}) {
    if (!utf8::valid(text)) return invalid("the prompt is not valid UTF-8");
  }
  CompletionCall call;
  const json body = body_of(settings, prompt, seed);
  if (const MaybeError error = parse_call(body, settings.chat, /*max_sequences=*/1, call)) {
    return invalid("{}", error->message);
  }
  call.request.max_tokens = call.max_tokens.value_or(0);
  return call;
}

}  // namespace tandem
