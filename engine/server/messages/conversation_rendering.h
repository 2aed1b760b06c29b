// Renders a conversation by a chat template that may not support all features of the request.
#pragma once

#include <string>

#include "base/status.h"
#include "engine/tokenizer/jinja/chat_template.h"

namespace tandem {

// Renders the conversation unchanged, except that the parts of contents are joined to one text, a
// line each, for a template that does not iterate over them. If the template fails, it is rendered
// again with substitutes that simpler templates expect: "" for an absent content beside tool calls,
// {} for arguments of a tool call that are not an object, and `system` for the role `developer`.
//
// The rendered prompt shows whether a role is supported: a developer's message whose content is
// missing from it is rendered again as one of `system`; for a message of a role other than user and
// assistant this is an invalid_argument that names the message.
Result<std::string> render_conversation(const ChatTemplate& chat, const ChatInput& input,
                                        const RenderLimits& limits);

}  // namespace tandem
