// A conversation's prompt, by a chat template that may not know all that a request can hold.
#pragma once

#include <string>

#include "base/status.h"
#include "engine/tokenizer/jinja/chat_template.h"

namespace tandem {

// Renders the conversation as it is; contents of parts are joined to one text, a line each, for a
// template that does not walk over them. Where the template fails, it is rendered again with what
// templates of fewer features expect: "" for a content that is missing beside tool calls, {} for
// arguments of a tool call that are no object, and `system` for the role `developer`.
//
// The rendered prompt decides about roles: a developer's message whose content is not in it is
// rendered again as one of `system`; for a message of another role than user and assistant it is an
// invalid_argument that names the message.
Result<std::string> render_conversation(const ChatTemplate& chat, const ChatInput& input,
                                        const RenderLimits& limits);

}  // namespace tandem
