// Finds tool calls in the text of an answer while it is generated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/server/tool_calls/tool_format.h"

namespace tandem {

// New output of one call. Arguments are passed on as the model wrote them: usually a JSON object,
// but this is not validated.
struct ToolCallDelta {
  std::int32_t index = 0;  // 0, 1, .. within an answer
  std::string name;        // with the first delta of a call; empty with the others
  std::string arguments;   // the next piece; may be empty
};

struct ParsedDelta {
  std::string content;               // text outside of calls
  std::vector<ToolCallDelta> calls;  // at most one per call, in order
};

// Limits. Text that may begin a call is held back until that is decided, but no more than
// kMaxHeldBytes, which count in the memory reserved for an answer. An answer has at most
// kMaxToolCalls calls; later ones are text.
inline constexpr std::size_t kMaxHeldBytes = 64U << 10;
inline constexpr std::int32_t kMaxToolCalls = 128;

// Parses one answer. A call is recognized when its name and the beginning of its arguments have
// arrived, and remains one if the text then breaks off. Everything else is content, byte for byte,
// except for hidden markers. White space around calls is dropped. The total output depends on the
// text alone, not on how it was split. Takes linear time for any text, without recursion. Not
// thread-safe.
class ToolParser {
 public:
  virtual ~ToolParser() = default;
  virtual ParsedDelta push(std::string_view text) = 0;
  // Call it at the end of the text; returns what was still held back.
  virtual ParsedDelta finish() = 0;
  virtual std::int32_t num_calls() const = 0;
};

struct ToolParserOptions {
  ToolFormat format = ToolFormat::none;
  // The text begins after the format's first marker (tool_constraint.h).
  bool begins_with_call = false;
  // Markers that are special tokens, which are not shown in content.
  std::vector<std::string> hidden;
};

// Requires a format other than none.
std::unique_ptr<ToolParser> make_tool_parser(const ToolParserOptions& options);

}  // namespace tandem
