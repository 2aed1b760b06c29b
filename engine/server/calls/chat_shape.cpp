#include "engine/server/calls/chat_shape.h"

#include <iterator>
#include <utility>

#include "engine/server/messages/response_building.h"

namespace tandem {
namespace {

using nlohmann::json;

// The only length of ids that Mistral's templates accept.
constexpr std::size_t kMistralIdLength = 9;

void append(ParsedDelta more, ParsedDelta& parsed) {
  parsed.content += more.content;
  parsed.calls.insert(parsed.calls.end(), std::make_move_iterator(more.calls.begin()),
                      std::make_move_iterator(more.calls.end()));
}

}  // namespace

ChatShape::ChatShape(const TextCodec& text, const GenerationRequest& request, bool logprobs,
                     ChatTools tools)
    : tools_(std::move(tools)) {
  const auto num_choices = static_cast<std::size_t>(request.n);
  if (logprobs) {
    const bool begins_text = text.says_nothing(request.prompt, request.skip_special_tokens);
    logprobs_.assign(num_choices, ChatLogprobs(TokenTexts(text, begins_text)));
  }
  if (tools_.options.format == ToolFormat::none) return;
  for (std::size_t i = 0; i < num_choices; ++i) {
    parsers_.push_back(make_tool_parser(tools_.options));
  }
}

json ChatShape::choice(const ChoicePart& whole) {
  json message{{"role", "assistant"}, {"content", whole.text}};
  if (parsers_.empty()) return choice_with("message", std::move(message), whole);
  ToolParser& parser = *parsers_[static_cast<std::size_t>(whole.index)];
  ParsedDelta parsed = parser.push(whole.text);
  append(parser.finish(), parsed);
  json calls = json::array();
  for (const ToolCallDelta& call : parsed.calls) {
    if (!is_told(call)) continue;
    if (!call.name.empty()) calls.push_back(call_json(call));
    auto& arguments = calls.back()["function"]["arguments"].get_ref<std::string&>();
    arguments += call.arguments;
  }
  const bool has_calls = !calls.empty();
  message["content"] = has_calls && parsed.content.empty() ? json() : json(parsed.content);
  if (has_calls) message["tool_calls"] = std::move(calls);
  json result = choice_with("message", std::move(message), whole);
  result["finish_reason"] = finish_json(whole, has_calls);
  return result;
}

std::vector<json> ChatShape::chunk_choices(const ChoicePart& part) {
  std::vector<json> deltas;
  bool has_calls = false;
  const bool ends = part.finish != FinishReason::none;
  if (parsers_.empty()) {
    deltas.push_back(json::object());
    if (part.first || !part.text.empty()) deltas.back()["content"] = part.text;
  } else {
    ToolParser& parser = *parsers_[static_cast<std::size_t>(part.index)];
    ParsedDelta parsed = parser.push(part.text);
    if (ends) append(parser.finish(), parsed);
    has_calls = parser.num_calls() > 0;
    deltas = deltas_of(parsed);
    // Held-back text may leave no delta; the end is then a chunk of its own.
    const bool silent = deltas.empty() && (part.first || !part.logprobs.empty());
    if (ends || silent) deltas.push_back(json::object());
  }
  if (part.first) {
    deltas.front()["role"] = "assistant";
    if (!deltas.front().contains("content")) deltas.front()["content"] = nullptr;
  }
  std::vector<json> choices;
  for (json& delta : deltas) {
    json choice = choice_with("delta", std::move(delta), part);
    if (!choices.empty()) choice["logprobs"] = nullptr;  // only the first chunk has them
    choice["finish_reason"] = nullptr;
    choice["stop_reason"] = nullptr;
    choices.push_back(std::move(choice));
  }
  if (ends) {
    choices.back()["finish_reason"] = finish_json(part, has_calls);
    if (!part.stop_reason.empty()) choices.back()["stop_reason"] = part.stop_reason;
  }
  return choices;
}

json ChatShape::silent_choice(std::size_t index) const {
  return {{"index", index},
          {"delta", json::object()},
          {"logprobs", nullptr},
          {"finish_reason", nullptr},
          {"stop_reason", nullptr}};
}

std::vector<json> ChatShape::deltas_of(const ParsedDelta& parsed) const {
  std::vector<json> deltas;
  if (!parsed.content.empty()) deltas.push_back({{"content", parsed.content}});
  for (const ToolCallDelta& call : parsed.calls) {
    if (!is_told(call)) continue;
    if (!call.name.empty()) {
      json first = call_json(call);
      first["index"] = call.index;
      deltas.push_back({{"tool_calls", json::array({std::move(first)})}});
    }
    if (call.arguments.empty()) continue;
    json next{{"index", call.index}, {"function", {{"arguments", call.arguments}}}};
    deltas.push_back({{"tool_calls", json::array({std::move(next)})}});
  }
  return deltas;
}

json ChatShape::call_json(const ToolCallDelta& call) const {
  const std::string id = tools_.options.format == ToolFormat::mistral
                             ? random_id("").substr(0, kMistralIdLength)
                             : random_id("call_");
  return {{"id", id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", ""}}}};
}

json ChatShape::choice_with(const char* name, json message, const ChoicePart& part) {
  json logprobs;
  if (!logprobs_.empty()) {
    logprobs = logprobs_[static_cast<std::size_t>(part.index)].format(part.logprobs);
  }
  return {{"index", part.index},
          {name, std::move(message)},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", finish_reason_json(part.finish)},
          {"stop_reason", part.stop_reason.empty() ? json() : json(part.stop_reason)}};
}

json ChatShape::finish_json(const ChoicePart& part, bool has_calls) const {
  if (part.finish == FinishReason::stop && has_calls && !tools_.named) return "tool_calls";
  return finish_reason_json(part.finish);
}

}  // namespace tandem
