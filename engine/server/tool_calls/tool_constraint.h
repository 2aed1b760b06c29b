// A request's tool choice, and the grammar that forces an answer to call a tool.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/server/tool_calls/tool_format.h"
#include "engine/service/generation.h"

namespace tandem {

struct ToolFunction {
  std::string name;
  nlohmann::ordered_json parameters;  // a JSON schema of an object; null: none
  bool strict = false;                // unenforceable parts are an error, else they are left out
};

struct ToolChoice {
  enum class Kind {
    automatic,  // the model decides
    none,       // calls are not parsed
    required,   // at least one call of any tool
    named,      // one call of this tool
  };
  Kind kind = Kind::automatic;
  std::string name;
};

struct ToolUse {
  std::vector<ToolFunction> tools;
  ToolChoice choice;
  bool parallel = true;  // an answer may have several calls

  bool is_enforced() const {
    return choice.kind == ToolChoice::Kind::required || choice.kind == ToolChoice::Kind::named;
  }
};

// Returns the format for parsing calls; `served` is the model's own. `json` if calls are enforced
// and the model has no format, `none` if calls are not parsed.
ToolFormat format_of(const ToolUse& use, ToolFormat served);

// Returns the constraint of an enforced choice: calls in `format` and nothing else. It leaves out a
// leading marker that tokenizers have as a special token, because special tokens are not text; see
// begins_with_call(). Kind `none` if nothing is enforced.
TextConstraint tool_constraint(const ToolUse& use, ToolFormat format);
// Returns a constraint that allows a text within `text`, or calls and nothing else; for requests in
// which the model decides and another field constrains the text. `text` itself if calls are not
// parsed.
TextConstraint text_or_calls(const TextConstraint& text, const ToolUse& use, ToolFormat format);
// Returns ToolParserOptions::begins_with_call for texts within tool_constraint().
bool begins_with_call(const ToolUse& use, ToolFormat format);

}  // namespace tandem
