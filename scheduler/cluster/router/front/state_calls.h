// The calls that report the router's state.
#pragma once

#include "base/http/http_message.h"
#include "scheduler/cluster/router/router.h"

namespace tandem {

// Deferred, because only the loop has this state. From any thread.
HttpResponse stats_call(Router& router);  // GET /v1/stats: the engines as the router sees them
HttpResponse scale_call(Router& router);  // GET /v1/scale

}  // namespace tandem
