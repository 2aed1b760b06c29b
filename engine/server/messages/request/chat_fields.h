// The fields of a chat request that are passed to its template.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/tokenizer/jinja/chat_template.h"

namespace tandem {

// Each function moves a field's value, with members in the order of the request's bytes. False: the
// value breaks the field's rule; `reason`, if set, says how.

// The messages, including unknown members, in the form that transformers passes to templates: the
// arguments of tool calls are parsed, because templates print them as JSON (text that is not an
// object is kept); null members are removed; reasoning is renamed to the names that templates use.
bool take_messages(nlohmann::ordered_json& value, ChatInput& chat, std::string& reason);
bool take_documents(nlohmann::ordered_json& value, ChatInput& chat, std::string& reason);
bool take_template_kwargs(nlohmann::ordered_json& value, ChatInput& chat, std::string& reason);

// Sets the template's variables `tools` and `documents` to null if the request does not set them.
void complete_variables(ChatInput& chat);

}  // namespace tandem
