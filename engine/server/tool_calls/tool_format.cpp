#include "engine/server/tool_calls/tool_format.h"

#include <array>

namespace tandem {
namespace {

constexpr std::array kLlama3Markers = {"<|python_tag|>"};
constexpr std::array kHermesMarkers = {"<tool_call>", "</tool_call>"};
constexpr std::array kMistralMarkers = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};

// In order of detection: Llama's tag is in the vocabulary of every model derived from Llama 3.1,
// including those trained for another format.
constexpr std::array kFamilies = {ToolFormat::hermes, ToolFormat::mistral, ToolFormat::llama3};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::optional<ToolFormat> tool_format(std::string_view name) {
  for (const ToolFormat format :
       {ToolFormat::none, ToolFormat::llama3, ToolFormat::hermes, ToolFormat::mistral}) {
    if (name == name_of(format)) return format;
  }
  return std::nullopt;
}

const char* name_of(ToolFormat format) {
  switch (format) {
    case ToolFormat::llama3:
      return "llama3";
    case ToolFormat::hermes:
      return "hermes";
    case ToolFormat::mistral:
      return "mistral";
    case ToolFormat::json:
      return "json";
    case ToolFormat::none:
      break;
  }
  return "none";
}

std::span<const char* const> markers_of(ToolFormat format) {
  switch (format) {
    case ToolFormat::llama3:
      return kLlama3Markers;
    case ToolFormat::hermes:
      return kHermesMarkers;
    case ToolFormat::mistral:
      return kMistralMarkers;
    case ToolFormat::json:
    case ToolFormat::none:
      break;
  }
  return {};
}

ToolFormat detect_tool_format(std::string_view chat_template,
                              const std::function<bool(std::string_view)>& has_token) {
  // Calls as XML inside the same tags are another format (Qwen3-Coder).
  if (has(chat_template, "<function=")) return ToolFormat::none;
  for (const ToolFormat format : kFamilies) {
    if (has(chat_template, markers_of(format).front())) return format;
  }
  if (!has(chat_template, "tools")) return ToolFormat::none;
  for (const ToolFormat format : kFamilies) {
    if (has_token(markers_of(format).front())) return format;
  }
  return ToolFormat::none;
}

}  // namespace tandem
