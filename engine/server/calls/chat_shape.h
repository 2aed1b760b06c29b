// The JSON shape of a chat answer: messages and deltas, with their tool calls.
#pragma once

#include <memory>
#include <vector>

#include "engine/server/answer/answer.h"
#include "engine/server/messages/response_building.h"
#include "engine/server/messages/text_codec.h"
#include "engine/server/tool_calls/tool_parser.h"

namespace tandem {

struct ChatTools {
  ToolParserOptions options;  // with format none, calls are not parsed
  bool parallel = true;       // if false, only the first call is sent
  // The request named the tool: a finished answer then has the reason "stop", as in OpenAI's API.
  bool named = false;
};

class ChatShape final : public AnswerShape {
 public:
  // Shapes the answers to `request`. `text` must outlive it.
  ChatShape(const TextCodec& text, const GenerationRequest& request, bool logprobs,
            ChatTools tools);

  const char* id_prefix() const override { return "chatcmpl-"; }
  const char* object(bool streamed) const override {
    return streamed ? "chat.completion.chunk" : "chat.completion";
  }
  nlohmann::json choice(const ChoicePart& whole) override;
  std::vector<nlohmann::json> chunk_choices(const ChoicePart& part) override;
  nlohmann::json silent_choice(std::size_t index) const override;

 private:
  nlohmann::json choice_with(const char* name, nlohmann::json message, const ChoicePart& part);
  nlohmann::json finish_json(const ChoicePart& part, bool has_calls) const;
  // The first delta of a call.
  nlohmann::json call_json(const ToolCallDelta& call) const;
  bool is_told(const ToolCallDelta& call) const { return tools_.parallel || call.index == 0; }
  // The deltas for a part's text, one change each.
  std::vector<nlohmann::json> deltas_of(const ParsedDelta& parsed) const;

  std::vector<ChatLogprobs> logprobs_;  // per choice; empty: not requested
  ChatTools tools_;
  std::vector<std::unique_ptr<ToolParser>> parsers_;  // per choice; empty: calls are not parsed
};

}  // namespace tandem
