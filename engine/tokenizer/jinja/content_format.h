// Detects the form of message contents that a template expects.
#pragma once

#include "engine/tokenizer/jinja/syntax/ast.h"

namespace tandem::jinja {

// True if the template has a loop over a message's content (message.content, message['content'], or
// a name that was set to it), and so supports contents that are lists of parts.
bool loops_over_content(const Body& body);

}  // namespace tandem::jinja
