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
#include "scheduler/cluster/engine_source.h"
#include "scheduler/registry/registry.h"
#include "scheduler/registry/registry_loop.h"
#include "scheduler/registry/registry_mirror.h"

namespace tandem {

struct RegistryEnginesOptions {
  // A watch lasts so long: as often it is looked whether to end.
  std::chrono::milliseconds patience{500};
  // What is told of an address in its place: for those who need a number where a name stands. May
  // take its time. Those that it fails for are left out, and tried again after each watch.
  std::function<Result<HttpAddress>(const HttpAddress&)> resolve = {};
};

// A thread of its own follows the registry. While that does not answer, what it said last stands,
// and nothing is told; the log says so once, and once when it is over.
class RegistryEngines final : public EngineSource {
 public:
  // `fixed`: engines that are there whatever the registry says, resolved already.
  RegistryEngines(std::unique_ptr<Registry> registry, std::vector<HttpAddress> fixed = {},
                  RegistryEnginesOptions options = {});
  // Takes as long as a watch, the store's deadline and `resolve` at most.
  ~RegistryEngines() override;

  // The fixed ones are told at once, the others when the registry has answered.
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

  // Of the loop, once it runs.
  std::int64_t revision_ = 0;
  bool must_read_all_ = true;
  RegistryMirror mirror_;
  std::optional<std::vector<HttpAddress>> told_;
  std::optional<std::vector<OfferedAdapter>> told_adapters_;
  std::set<std::string> refused_;  // addresses that are none, which the log has
  bool unresolved_ = false;        // one of them may be one a little later

  std::unique_ptr<RegistryLoop> loop_;  // uses all of the above
};

}  // namespace tandem
