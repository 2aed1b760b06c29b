// GET and POST /v1/log_level: reads and changes the log's levels while the process runs.
#pragma once

#include "base/http/http_message.h"

namespace tandem {

// Both are thread-safe.
HttpResponse show_log_level();
// {"log_level": "info,handoff=debug"} replaces all levels. 400 says what is wrong with the text.
HttpResponse change_log_level(const HttpRequest& request);

}  // namespace tandem
