// How families of models write the calls of tools into their text.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

enum class ToolFormat {
  none,     // text is text
  llama3,   // {"name": .., "parameters": {..}}; several with "; " between, maybe behind a tag
  hermes,   // <tool_call>{"name": .., "arguments": {..}}</tool_call>: Qwen 2.5 and 3, Hermes
  mistral,  // [TOOL_CALLS][{"name": .., "arguments": {..}}, ..] or [TOOL_CALLS]name[ARGS]{..}
  json,     // [{"name": .., "parameters": {..}}, ..]: of no family, where a grammar enforces calls
};

// "llama3", "hermes", "mistral", "none"; nothing for other names.
std::optional<ToolFormat> tool_format(std::string_view name);
const char* name_of(ToolFormat format);

// What stands around calls in the format's text. Tokenizers have a token for each, which may be
// special.
std::span<const char* const> markers_of(ToolFormat format);

// The format that a chat template asks for, by the markers that it prints or, where it prints
// `tools` without any, by those that the tokenizer has a token for.
ToolFormat detect_tool_format(std::string_view chat_template,
                              const std::function<bool(std::string_view)>& has_token);

}  // namespace tandem
