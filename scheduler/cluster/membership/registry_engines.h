// The engines that have a lease in a registry, as they come and go.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/http/client/http_address.h"
#include "base/status.h"
#include "scheduler/cluster/members/engine_source.h"
#include "scheduler/cluster/registry/registry.h"
#include "scheduler/cluster/registry/registry_loop.h"
#include "scheduler/cluster/registry/registry_mirror.h"

namespace tandem {

struct RegistryEnginesOptions {
  // How long a watch lasts; after each one the thread checks whether to end.
  std::chrono::milliseconds patience{500};
  // Replaces each address, for users that need a number in place of a name. May block. Addresses
  // for which it fails are left out, and tried again after each watch.
  std::function<Result<HttpAddress>(const HttpAddress&)> resolve = {};
};

// Follows the registry on a thread of its own. While the registry does not answer, its last state
// stands and no change is reported; the log has a line at the beginning of that and one at its end.
class RegistryEngines final : public EngineSource {
 public:
  // `fixed`: engines that exist independently of the registry, already resolved.
  RegistryEngines(std::unique_ptr<Registry> registry, std::vector<HttpAddress> fixed = {},
                  RegistryEnginesOptions options = {});
  // Takes at most as long as a watch, the store's deadline and `resolve`.
  ~RegistryEngines() override;

  // Reports the fixed engines at once, the others when the registry has answered.
  void watch(Changed changed) override;
  void watch_adapters(const AdaptersChanged& changed) override { adapters_changed_ = changed; }

 private:
  Status follow();
  Status read_all();
  void take(const RegistryNews& news);
  Result<HttpAddress> address_of(const EngineEntry& engine);
  void tell();

  const std::unique_ptr<Registry> registry_;
  const std::vector<HttpAddress> fixed_;
  const RegistryEnginesOptions options_;
  Changed changed_;
  AdaptersChanged adapters_changed_;

  // Used by the loop once it runs.
  std::int64_t revision_ = 0;
  bool must_read_all_ = true;
  RegistryMirror mirror_;
  std::optional<std::vector<HttpAddress>> told_;
  std::optional<std::vector<OfferedAdapter>> told_adapters_;
  std::set<std::string> refused_;  // invalid addresses that were logged
  bool unresolved_ = false;        // one of them may become valid later

  std::unique_ptr<RegistryLoop> loop_;  // uses all of the above
};

}  // namespace tandem
