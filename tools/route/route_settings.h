// The settings of `tandem route`.
#pragma once

#include "base/settings/settings.h"
#include "scheduler/cluster/membership/named_engines.h"
#include "scheduler/cluster/router/front/router_server.h"
#include "tools/cli/log_settings.h"
#include "tools/cli/trace_settings.h"

namespace tandem {

struct RouteSettings {
  NamedEngines engines;
  RouterServerOptions server;
  double drain_timeout_s = 30;
  LogSettings log;
  TracingOptions tracing;
};

void add_route_settings(SettingsTable& table, RouteSettings& settings);

}  // namespace tandem
