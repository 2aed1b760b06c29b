// Which engines there are, and which adapters they can bring in: flags name engines, a registry
// has both.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/http/client/http_address.h"

namespace tandem {

// An adapter that each engine of the cluster makes servable when it is asked for it.
struct OfferedAdapter {
  std::string name;
  std::int32_t rank = 0;
  std::int64_t bytes = 0;
  std::string digest = {};  // of its weights

  bool operator==(const OfferedAdapter&) const = default;
};

class EngineSource {
 public:
  using Changed = std::function<void(std::vector<HttpAddress>)>;
  using AdaptersChanged = std::function<void(std::vector<OfferedAdapter>)>;

  virtual ~EngineSource() = default;
  // Tells all addresses that are known, at once or when the first are, and after each change; from
  // any thread, until the destructor returns. Once. An address that is missing is of an engine that
  // nobody vouches for any more: let it go when its own statistics are silent as well, and not
  // before, as a registry that was lost or a lease that lapsed says nothing of the engine.
  virtual void watch(Changed changed) = 0;
  // Tells all adapters in the same way. Before watch(), once, or never.
  virtual void watch_adapters(const AdaptersChanged& /*changed*/) {}
};

// Those that were given.
class FixedEngines final : public EngineSource {
 public:
  explicit FixedEngines(std::vector<HttpAddress> addresses) : addresses_(std::move(addresses)) {}
  void watch(Changed changed) override { changed(addresses_); }

 private:
  std::vector<HttpAddress> addresses_;
};

}  // namespace tandem
