// A router as its dashboard shows it (base/dashboard/dashboard_feed.h): the tables are engines,
// adapters, and where the last requests went and why.
#pragma once

#include "base/dashboard/dashboard_feed.h"
#include "scheduler/router/router.h"

namespace tandem {

// From any thread but the loop's, which is asked and is waited for, for a second at most: throws
// then.
DashboardPicture router_picture(Router& router);

}  // namespace tandem
