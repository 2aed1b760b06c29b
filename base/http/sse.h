// Server-sent events: the framing of streamed answers.
#pragma once

#include <string>
#include <string_view>

#include "base/http/http_message.h"

namespace tandem {

// A comment, which readers of events skip.
inline constexpr std::string_view kSseComment = ":\n\n";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// One event. `json` must be one line.
std::string sse_event(std::string_view json);

// Status 200 and the headers that keep proxies from delaying events; the caller sets `source`.
HttpResponse sse_response();

}  // namespace tandem
