// What commands are told that choose among the engines of a cluster.
#pragma once

#include <string>
#include <string_view>

#include "base/settings/settings.h"
#include "scheduler/cluster/membership/named_engines.h"
#include "scheduler/cluster/policies/policy.h"

namespace tandem {

// `all`: who takes the same seed, "routers".
void add_cluster_settings(SettingsTable& table, NamedEngines& engines, std::string& policy,
                          PolicyOptions& options, std::string_view all);

}  // namespace tandem
