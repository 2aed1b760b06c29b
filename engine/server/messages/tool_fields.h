// The fields of a chat request about tools: what the model may call, and whether it must.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/server/messages/errors.h"
#include "engine/server/messages/request_fields.h"

namespace tandem {

// A list of OpenAI's tools or of functions themselves, for the template. False: it breaks the
// field's rule; `reason`, when set, says how.
bool take_tools(nlohmann::ordered_json& value, ChatInput& chat, std::string& reason);
bool take_tool_choice(const nlohmann::json& value, CompletionCall& call, std::string& reason);

// After the fields: tool_use gets the functions that take_tools() gave to the template, and a
// choice of a tool must have one to choose.
MaybeError check_tools(CompletionCall& call);

}  // namespace tandem
