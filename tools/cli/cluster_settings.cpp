#include "tools/cli/cluster_settings.h"

#include <fmt/format.h>

namespace tandem {

void add_cluster_settings(SettingsTable& table, NamedEngines& engines, std::string& policy,
                          PolicyOptions& options, std::string_view all) {
  table.group("Engines");
  table.add(engines.urls, "engine", "address of an engine, as in http://HOST:PORT; may be repeated")
      .meta("URL");
  table
      .add(engines.registry, "registry",
           "registry of a cluster, sqlite:FILE or etcd://HOST:PORT,...: its engines are used as "
           "they come and go; may be given with engine")
      .meta("URL");
  table.add(policy, "policy", "rule that chooses an engine for each request")
      .choices(policy_names());
  table
      .add(options.seed, "seed",
           fmt::format("seed of policies that draw or hash; give it the same value on all {}", all))
      .at_least(0);
  table
      .add(in_ms(options.slo_decode_s), "slo_decode_ms",
           "rank_aware avoids engines where a decode step would take longer; 0: no limit")
      .range(0, 60000);
}

}  // namespace tandem
