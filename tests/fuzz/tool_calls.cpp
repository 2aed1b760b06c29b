// Input: the first byte selects the format; the rest is a model's output.
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/server/tool_calls/tool_parser.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

struct Said {
  std::string content;
  std::vector<std::string> calls;  // name, newline, arguments
  bool operator==(const Said&) const = default;
};

void add_news(const ParsedDelta& delta, Said& said) {
  said.content += delta.content;
  for (const ToolCallDelta& call : delta.calls) {
    if (!call.name.empty()) said.calls.push_back(call.name + "\n");
    TANDEM_CHECK(static_cast<std::size_t>(call.index) + 1 == said.calls.size(), "call {}",
                 call.index);
    said.calls.back() += call.arguments;
  }
}

Said read_in_pieces(const ToolParserOptions& options, std::string_view text, std::size_t piece) {
  const auto parser = make_tool_parser(options);
  Said said;
  for (; text.size() > piece; text.remove_prefix(piece)) {
    add_news(parser->push(text.substr(0, piece)), said);
  }
  add_news(parser->push(text), said);
  add_news(parser->finish(), said);
  return said;
}

}  // namespace

void fuzz_tool_calls(Bytes bytes) {
  if (bytes.empty()) return;
  constexpr ToolFormat kFormats[] = {ToolFormat::llama3, ToolFormat::hermes, ToolFormat::mistral,
                                     ToolFormat::json};
  const auto how = std::to_integer<unsigned>(bytes[0]);
  ToolParserOptions options{kFormats[how & 3], (how & 4) != 0, {}};
  const std::string_view text = text_of(bytes.subspan(1));
  const Said whole = read_in_pieces(options, text, text.size() + 1);
  TANDEM_CHECK(read_in_pieces(options, text, 1) == whole);
  TANDEM_CHECK(read_in_pieces(options, text, 5) == whole);
  TANDEM_CHECK(!whole.calls.empty() || whole.content == text);
  TANDEM_CHECK(whole.calls.size() <= static_cast<std::size_t>(kMaxToolCalls));
}

}  // namespace tandem::fuzz
