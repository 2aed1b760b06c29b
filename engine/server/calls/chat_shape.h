// How a chat answer looks: messages and deltas, and the calls of tools in them.
#pragma once

#include <memory>
#include <vector>

#include "engine/server/answer/answer.h"
#include "engine/server/messages/response_building.h"
#include "engine/server/messages/text_codec.h"
#include "engine/server/tool_calls/tool_parser.h"

namespace tandem {

struct ChatTools {
  ToolParserOptions options;  // of format none: text is text
  bool parallel = true;       // else the first call is told, the others are left out
  // The request named the tool: the answer ended because it stopped, as OpenAI has it.
  bool named = false;
};

class ChatShape final : public AnswerShape {
 public:
  // Of the answers to `request`. `text` outlives it.
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
  // A call's first delta.
  nlohmann::json call_json(const ToolCallDelta& call) const;
  bool is_told(const ToolCallDelta& call) const { return tools_.parallel || call.index == 0; }
  // What a part's text says, one change a delta.
  std::vector<nlohmann::json> deltas_of(const ParsedDelta& parsed) const;

  std::vector<ChatLogprobs> logprobs_;  // per choice; none: they are not asked for
  ChatTools tools_;
  std::vector<std::unique_ptr<ToolParser>> parsers_;  // per choice; none: text is text
};

}  // namespace tandem
