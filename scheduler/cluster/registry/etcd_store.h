// The registry's store in etcd 3.4 or newer, through the JSON gateway at etcd's client address. Of
// several endpoints the one that answered last is tried first, then the others, each with a
// deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "scheduler/cluster/registry/http_post.h"
#include "scheduler/cluster/registry/registry_store.h"

namespace tandem {

struct EtcdOptions {
  std::vector<HttpEndpoint> endpoints;      // at least one
  std::string prefix = "tandem/";           // before all keys
  std::chrono::milliseconds timeout{3000};  // per endpoint
};

class EtcdStore final : public RegistryStore {
 public:
  // Connects to no endpoint yet.
  explicit EtcdStore(EtcdOptions options) : options_(std::move(options)) {}

  Result<StoreRead> read(std::string_view prefix) override;
  Result<std::optional<StoredValue>> find(std::string_view key) override;
  Result<bool> write(const StoreWrite& write) override;
  Result<std::int64_t> grant_lease(std::chrono::seconds ttl) override;
  Status keep_lease(std::int64_t lease) override;
  Status end_lease(std::int64_t lease) override;
  Result<StoreNews> watch(std::int64_t since, std::chrono::milliseconds patience) override;

 private:
  // The complete answer of the first endpoint that gives one.
  Result<nlohmann::json> call(const char* path, const nlohmann::json& request);
  Result<nlohmann::json> call_one(const HttpEndpoint& endpoint, const char* path,
                                  const nlohmann::json& request) const;
  Status watch_one(const HttpEndpoint& endpoint, std::chrono::steady_clock::time_point deadline,
                   StoreNews& news) const;
  // Calls `ask` with each endpoint in turn until it succeeds or fails with an error other than
  // unavailable.
  template <typename Ask>
  Status ask_in_turn(const Ask& ask);

  const EtcdOptions options_;
  std::atomic<std::size_t> preferred_{0};  // relaxed: only the endpoint to begin with
};

}  // namespace tandem
