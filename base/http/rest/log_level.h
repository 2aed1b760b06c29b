// GET and POST /v1/log_level: what reaches the log, told and changed while the process runs.
#pragma once

#include "base/http/http_message.h"

namespace tandem {

// Thread-safe, both.
HttpResponse show_log_level();
// {"log_level": "info,handoff=debug"} replaces what held. 400 says what is wrong with it.
HttpResponse change_log_level(const HttpRequest& request);

}  // namespace tandem
