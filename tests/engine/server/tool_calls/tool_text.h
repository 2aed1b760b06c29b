// Helpers that parse a text for tool calls and print the result.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "engine/server/tool_calls/tool_parser.h"

namespace tandem {

struct ParsedCall {
  std::string name;
  std::string arguments;
  bool operator==(const ParsedCall&) const = default;
};

struct ParsedAnswer {
  std::string content;
  std::vector<ParsedCall> calls;
  bool operator==(const ParsedAnswer&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const ParsedAnswer& answer) {
  out << "\"" << answer.content << "\"";
  for (const ParsedCall& call : answer.calls)
    out << " " << call.name << "(" << call.arguments << ")";
  return out;
}

// Joins deltas as a client does; a delta out of order is marked in the content.
inline void add(const ParsedDelta& delta, ParsedAnswer& answer) {
  answer.content += delta.content;
  for (const ToolCallDelta& call : delta.calls) {
    const auto index = static_cast<std::size_t>(call.index);
    if (!call.name.empty() && index == answer.calls.size()) {
      answer.calls.push_back({call.name, call.arguments});
    } else if (call.name.empty() && index + 1 == answer.calls.size()) {
      answer.calls.back().arguments += call.arguments;
    } else {
      answer.content += "<delta out of order>";
    }
  }
}

// `pieces`: the text, cut into pieces.
inline ParsedAnswer parse(const ToolParserOptions& options,
                          const std::vector<std::string>& pieces) {
  const auto parser = make_tool_parser(options);
  ParsedAnswer answer;
  for (const std::string& piece : pieces) add(parser->push(piece), answer);
  add(parser->finish(), answer);
  return answer;
}

}  // namespace tandem
