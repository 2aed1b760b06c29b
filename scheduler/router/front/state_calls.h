// What the router tells of itself.
#pragma once

#include "base/http/http_message.h"
#include "scheduler/router/router.h"

namespace tandem {

// Deferred, as all of it is known to the loop alone. From any thread.
HttpResponse stats_call(Router& router);  // GET /v1/stats: the engines as the router sees them
HttpResponse scale_call(Router& router);  // GET /v1/scale

}  // namespace tandem
