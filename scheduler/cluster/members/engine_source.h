// The source of engines and of the adapters that they can load: flags name engines, a registry
// lists both.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/http/client/http_address.h"

namespace tandem {

// An adapter that each engine of the cluster loads on request.
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
  // Calls `changed` with all known addresses, at once or when the first are known, and after each
  // change; on any thread, until the destructor returns. Called once. An engine whose address is
  // missing is no longer listed: it must be kept until its own statistics stop as well, because a
  // lost registry or a lapsed lease does not mean that the engine is gone.
  virtual void watch(Changed changed) = 0;
  // The same for all adapters. Called before watch(), at most once.
  virtual void watch_adapters(const AdaptersChanged& /*changed*/) {}
};

// A fixed list of engines.
class FixedEngines final : public EngineSource {
 public:
  explicit FixedEngines(std::vector<HttpAddress> addresses) : addresses_(std::move(addresses)) {}
  void watch(Changed changed) override { changed(addresses_); }

 private:
  std::vector<HttpAddress> addresses_;
};

}  // namespace tandem
