// The registry's store in etcd 3.4 or newer, by the JSON gateway that etcd itself has at its
// clients' address. Of several endpoints the one that answered last is asked first, then the
// others, each with a deadline.
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
#include "scheduler/registry/http_post.h"
#include "scheduler/registry/registry_store.h"

namespace tandem {

struct EtcdOptions {
  std::vector<HttpEndpoint> endpoints;      // at least one
  std::string prefix = "tandem/";           // of all keys
  std::chrono::milliseconds timeout{3000};  // of one endpoint
};

class EtcdStore final : public RegistryStore {
 public:
  // Asks nobody yet.
  explicit EtcdStore(EtcdOptions options) : options_(std::move(options)) {}

  Result<StoreRead> read(std::string_view prefix) override;
  Result<std::optional<StoredValue>> find(std::string_view key) override;
  Result<bool> write(const StoreWrite& write) override;
  Result<std::int64_t> grant_lease(std::chrono::seconds ttl) override;
  Status keep_lease(std::int64_t lease) override;
  Status end_lease(std::int64_t lease) override;
  Result<StoreNews> watch(std::int64_t since, std::chrono::milliseconds patience) override;

 private:
  // The whole answer of the first endpoint that has one.
  Result<nlohmann::json> call(const char* path, const nlohmann::json& request);
  Result<nlohmann::json> call_one(const HttpEndpoint& endpoint, const char* path,
                                  const nlohmann::json& request) const;
  Status watch_one(const HttpEndpoint& endpoint, std::chrono::steady_clock::time_point deadline,
                   StoreNews& news) const;
  // `ask` of each endpoint in turn, until a failure is another than unavailable, or none.
  template <typename Ask>
  Status ask_in_turn(const Ask& ask);

  const EtcdOptions options_;
  std::atomic<std::size_t> preferred_{0};  // relaxed: where to begin
};

}  // namespace tandem
