// The settings of `tandem pick`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/settings/settings.h"
#include "scheduler/cluster/membership/named_engines.h"
#include "scheduler/picker/picker_host.h"
#include "tools/cli/log_settings.h"

namespace tandem {

struct PickSettings {
  std::vector<std::string> engine;
  std::string registry;
  std::string policy = "tandem";
  std::int64_t seed = 1;
  double slo_decode_ms = 0;
  std::int64_t max_waiting = 128;
  std::int64_t max_fallbacks = 3;
  double heartbeat_timeout_s = 2;
  // Server
  std::string host = "127.0.0.1";
  std::int64_t port = 9002;
  std::string metrics_host = "127.0.0.1";
  std::int64_t metrics_port = 9012;
  std::string api_key;
  bool metrics_without_key = false;
  double max_body_mb = 8;
  LogSettings log;
};

void add_pick_settings(SettingsTable& table, PickSettings& settings);
NamedEngines named_engines(const PickSettings& settings);
PickerOptions picker_options(const PickSettings& settings);

}  // namespace tandem
