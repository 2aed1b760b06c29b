// The settings of `tandem pick`.
#pragma once

#include <string>

#include "base/settings/settings.h"
#include "scheduler/cluster/membership/named_engines.h"
#include "scheduler/cluster/picker/picker_host.h"
#include "tools/cli/log_settings.h"

namespace tandem {

struct PickSettings {
  NamedEngines engines;
  PickerOptions picker;
  // Server
  std::string host = "127.0.0.1";
  int port = 9002;
  std::string metrics_host = "127.0.0.1";
  int metrics_port = 9012;
  bool metrics_without_key = false;
  LogSettings log;
};

void add_pick_settings(SettingsTable& table, PickSettings& settings);

}  // namespace tandem
