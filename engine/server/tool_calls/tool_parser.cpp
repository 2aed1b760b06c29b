#include "engine/server/tool_calls/tool_parser.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/server/tool_calls/parsers.h"

namespace tandem {

ParsedDelta TextParser::push(std::string_view text) {
  for (const char c : text) read(c);
  return out_.take();
}

ParsedDelta TextParser::finish() {
  end();
  release();
  out_.content(markers_.flush());
  return out_.finish();
}

std::optional<std::size_t> TextParser::find_marker(char c) {
  std::string text;
  const auto marker = markers_.push(c, text);
  out_.content(text);
  return marker;
}

std::string TextParser::shown(std::size_t marker) const {
  const char* const name = markers_of(options_.format)[marker];
  const bool hidden =
      std::find(options_.hidden.begin(), options_.hidden.end(), name) != options_.hidden.end();
  return hidden ? std::string() : name;
}

bool TextParser::hold_space(char c) {
  if (!is_json_space(c) || call_.held.size() >= kMaxHeldBytes) return false;
  call_.held += c;
  return true;
}

void TextParser::release() {
  out_.content(std::exchange(call_.held, {}));
}

std::unique_ptr<ToolParser> make_tool_parser(const ToolParserOptions& options) {
  switch (options.format) {
    case ToolFormat::llama3:
      return std::make_unique<Llama3Parser>(options);
    case ToolFormat::hermes:
      return std::make_unique<HermesParser>(options);
    case ToolFormat::mistral:
    case ToolFormat::json:
      return std::make_unique<MistralParser>(options);
    case ToolFormat::none:
      break;
  }
  TANDEM_CHECK(false, "no parser reads calls of no format");
}

}  // namespace tandem
