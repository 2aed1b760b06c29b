// The fields of a chat request about tools: which ones the model may call, and whether it must.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/server/messages/errors.h"
#include "engine/server/messages/request/request_fields.h"

namespace tandem {

// Takes a list of OpenAI's tools, or of bare functions, for the template. False: it breaks the
// field's rule; `reason`, if set, says how.
bool take_tools(nlohmann::ordered_json& value, ChatInput& chat, std::string& reason);
bool take_tool_choice(const nlohmann::json& value, CompletionCall& call, std::string& reason);

// Called after all fields: copies the functions that take_tools() passed to the template to
// tool_use, and checks that a chosen tool exists.
MaybeError check_tools(CompletionCall& call);

}  // namespace tandem
