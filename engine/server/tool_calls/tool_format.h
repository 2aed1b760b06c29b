// The syntax of tool calls in the text of model families.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

enum class ToolFormat {
  none,     // calls are not parsed
  llama3,   // {"name": .., "parameters": {..}}; several with "; " between, optionally after a tag
  hermes,   // <tool_call>{"name": .., "arguments": {..}}</tool_call>: Qwen 2.5 and 3, Hermes
  mistral,  // [TOOL_CALLS][{"name": .., "arguments": {..}}, ..] or [TOOL_CALLS]name[ARGS]{..}
  json,     // [{"name": .., "parameters": {..}}, ..]: for models without a format, if a grammar
            // enforces calls
};

// "llama3", "hermes", "mistral", "none"; nothing for other names.
std::optional<ToolFormat> tool_format(std::string_view name);
const char* name_of(ToolFormat format);

// The markers around calls in the format's text. Tokenizers have a token for each, which may be
// special.
std::span<const char* const> markers_of(ToolFormat format);

// Detects the format of a chat template by the markers that it prints or, if it prints `tools`
// without any, by the markers for which the tokenizer has a token.
ToolFormat detect_tool_format(std::string_view chat_template,
                              const std::function<bool(std::string_view)>& has_token);

}  // namespace tandem
