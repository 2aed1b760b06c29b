// The router's data for its dashboard (base/dashboard/dashboard_feed.h): the tables of engines, of
// adapters, and of the last requests with their engines and reasons.
#pragma once

#include "base/dashboard/dashboard_feed.h"
#include "scheduler/cluster/router/router.h"

namespace tandem {

// Called on any thread but the loop's. Waits for the loop for a second at most, then throws.
DashboardPicture router_picture(Router& router);

}  // namespace tandem
