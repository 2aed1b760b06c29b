// Finds the calls of tools in the text of an answer, while it is being made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/server/tool_calls/tool_format.h"

namespace tandem {

// News of one call. What a model wrote as arguments is passed on as it wrote it: a JSON object, or
// what it took for one.
struct ToolCallDelta {
  std::int32_t index = 0;  // 0, 1, .. in an answer
  std::string name;        // with the first delta of a call; empty with the others
  std::string arguments;   // the next piece; may be empty
};

struct ParsedDelta {
  std::string content;               // text that is no part of a call
  std::vector<ToolCallDelta> calls;  // at most one for each call, in order
};

// What could be the beginning of a call is held back until it is one or is none; more than this it
// is not, and whoever reserves memory for an answer counts it. Nor is a call after so many.
inline constexpr std::size_t kMaxHeldBytes = 64U << 10;
inline constexpr std::int32_t kMaxToolCalls = 128;

// Of one answer. A call is one from when its name and the beginning of its arguments have come, and
// stays one if the text then breaks off; what turns out to be none is content, to the byte, but for
// markers that are hidden. White space around calls is no content. What is said in the end depends
// on the text alone, not on the pieces that it came in. Linear in the text, whatever it says, and
// nothing nests. Not thread-safe.
class ToolParser {
 public:
  virtual ~ToolParser() = default;
  virtual ParsedDelta push(std::string_view text) = 0;
  // At the end of the text: what was still held back.
  virtual ParsedDelta finish() = 0;
  virtual std::int32_t num_calls() const = 0;
};

struct ToolParserOptions {
  ToolFormat format = ToolFormat::none;
  // The text begins where it would be behind the format's first marker (tool_constraint.h).
  bool begins_with_call = false;
  // Markers that are special tokens, which no reader of content sees.
  std::vector<std::string> hidden;
};

// Requires a format other than none.
std::unique_ptr<ToolParser> make_tool_parser(const ToolParserOptions& options);

}  // namespace tandem
