// What a request says of tools, and the grammar that makes an answer call one of them.
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
  nlohmann::ordered_json parameters;  // the JSON schema of an object; null: it has none
  bool strict = false;  // what cannot be enforced of it is an error, and is else left out
};

struct ToolChoice {
  enum class Kind {
    automatic,  // the model's
    none,       // text is text
    required,   // some tool, at least one call
    named,      // this tool, one call
  };
  Kind kind = Kind::automatic;
  std::string name;
};

struct ToolUse {
  std::vector<ToolFunction> tools;
  ToolChoice choice;
  bool parallel = true;  // more than one call in an answer

  bool is_enforced() const {
    return choice.kind == ToolChoice::Kind::required || choice.kind == ToolChoice::Kind::named;
  }
};

// The format in which calls of `use` are read, `served` being the model's own: `json` where calls
// are enforced and the model has none, `none` where nothing is read.
ToolFormat format_of(const ToolUse& use, ToolFormat served);

// The text that an enforced choice leaves: calls in `format` and nothing else. Markers that
// tokenizers have as special tokens are no text, so they are left out: behind begins_with_call().
// Of no kind if nothing is enforced.
TextConstraint tool_constraint(const ToolUse& use, ToolFormat format);
// Where the choice is the model's and another field says what the text must be: that, or calls and
// nothing else. `text` itself where no calls are read.
TextConstraint text_or_calls(const TextConstraint& text, const ToolUse& use, ToolFormat format);
// ToolParserOptions::begins_with_call of what tool_constraint() leaves.
bool begins_with_call(const ToolUse& use, ToolFormat format);

}  // namespace tandem
