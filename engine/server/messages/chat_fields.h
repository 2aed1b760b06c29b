// The fields of a chat request that its template sees.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/tokenizer/jinja/chat_template.h"

namespace tandem {

// Each takes a field's value, members in the order of the request's bytes, and leaves nothing of
// it. False: it breaks the field's rule; `reason`, when set, says how.

// The messages as they are, unknown members included, but as transformers gives them to templates:
// a tool call's arguments are parsed, for they are printed as JSON (text that is no object stays
// text); members that are null are left out; reasoning has the names that templates know it by.
bool take_messages(nlohmann::ordered_json& value, ChatInput& chat, std::string& reason);
bool take_documents(nlohmann::ordered_json& value, ChatInput& chat, std::string& reason);
bool take_template_kwargs(nlohmann::ordered_json& value, ChatInput& chat, std::string& reason);

// `tools` and `documents` are none for a template when the request has none.
void complete_variables(ChatInput& chat);

}  // namespace tandem
