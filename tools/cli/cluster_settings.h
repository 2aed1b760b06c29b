// Settings of the commands that choose among the engines of a cluster.
#pragma once

#include <string>
#include <string_view>

#include "base/settings/settings.h"
#include "scheduler/cluster/membership/named_engines.h"
#include "scheduler/cluster/policies/policy.h"

namespace tandem {

// `all`: the processes that have to use the same seed, as the help text names them: "routers".
void add_cluster_settings(SettingsTable& table, NamedEngines& engines, std::string& policy,
                          PolicyOptions& options, std::string_view all);

}  // namespace tandem
