// The settings of `tandem route`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/settings/settings.h"
#include "scheduler/cluster/membership/named_engines.h"
#include "scheduler/router/front/router_server.h"
#include "tools/cli/log_settings.h"
#include "tools/cli/trace_settings.h"

namespace tandem {

struct RouteSettings {
  std::vector<std::string> engine;
  std::string registry;
  std::string policy = "tandem";
  std::int64_t seed = 1;
  double slo_decode_ms = 0;
  // Consolidation
  bool consolidate = false;
  double consolidate_after_s = 10;
  double consolidate_again_s = 60;
  double consolidate_pause_ms = 1000;
  // Server
  std::string host = "127.0.0.1";
  std::int64_t port = 8080;
  std::string api_key;
  bool metrics_without_key = false;
  std::vector<std::string> cors_origins;
  std::int64_t max_connections = 4096;
  double max_body_mb = 8;
  double keep_alive_s = 75;
  double drain_timeout_s = 30;
  // Patience
  std::int64_t max_queue = 1024;
  double queue_timeout_s = 10;
  double first_byte_timeout_s = 120;
  double stall_timeout_s = 20;
  double answer_timeout_s = 600;
  double heartbeat_timeout_s = 2;
  double recover_timeout_s = 30;
  std::int64_t max_attempts = 6;
  bool request_log = true;
  LogSettings log;
  TraceSettings tracing;
};

void add_route_settings(SettingsTable& table, RouteSettings& settings);
RouterServerOptions router_options(const RouteSettings& settings);
NamedEngines named_engines(const RouteSettings& settings);

}  // namespace tandem
