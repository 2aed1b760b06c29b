#include "scheduler/cluster/registry/registry_url.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/parse_number.h"
#include "scheduler/cluster/registry/late_store.h"
#include "scheduler/cluster/registry/registry.h"
#include "scheduler/cluster/registry/sqlite_store.h"

namespace tandem {
namespace {

constexpr std::string_view kSqlite = "sqlite:";
constexpr std::string_view kEtcd = "etcd://";
constexpr const char* kEtcdPort = "2379";
constexpr std::size_t kMaxEndpoints = 16;
constexpr std::size_t kMaxHostBytes = 253;  // DNS's limit
constexpr std::size_t kMaxPrefixBytes = 128;
// The time that a start waits for a file that another process has locked.
constexpr std::chrono::milliseconds kFirstPatience{300};

bool is_of(std::string_view text, std::string_view also) {
  return std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           also.find(c) != std::string_view::npos;
  });
}

bool is_port(std::string_view text) {
  return parse_number<std::uint16_t>(text).value_or(0) > 0;
}

// Empty if the text is invalid. An IPv6 address is in brackets, to separate it from its port.
std::optional<HttpEndpoint> parse_endpoint(std::string_view text) {
  HttpEndpoint endpoint;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return {};
    endpoint.host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
    if (!is_of(endpoint.host, ":.%")) return {};
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    endpoint.host = text.substr(0, colon);
    rest = text.substr(colon);
    if (!is_of(endpoint.host, ".-_")) return {};
  }
  if (endpoint.host.empty() || endpoint.host.size() > kMaxHostBytes) return {};
  endpoint.port = rest.empty() ? kEtcdPort : rest.substr(1);
  if (!rest.empty() && (rest.front() != ':' || !is_port(endpoint.port))) return {};
  return endpoint;
}

Result<EtcdOptions> parse_etcd(std::string_view rest) {
  EtcdOptions options;
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view hosts = rest.substr(0, slash);
  std::string_view prefix = rest.substr(std::min(slash + 1, rest.size()));
  if (hosts.find('@') != std::string_view::npos) {
    return invalid("registry: users of etcd are not supported; leave out what is before '@'");
  }
  while (true) {
    const std::size_t comma = std::min(hosts.find(','), hosts.size());
    const auto endpoint = parse_endpoint(hosts.substr(0, comma));
    if (!endpoint) {
      return invalid("registry: '{}' is no HOST:PORT; example: etcd://10.0.0.1:2379,10.0.0.2:2379",
                     hosts.substr(0, comma));
    }
    options.endpoints.push_back(*endpoint);
    if (comma == hosts.size()) break;
    hosts.remove_prefix(comma + 1);
  }
  if (options.endpoints.size() > kMaxEndpoints) {
    return invalid("registry: more than {} endpoints", kMaxEndpoints);
  }
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (prefix.size() > kMaxPrefixBytes || !is_of(prefix, "._-/")) {
    return invalid(
        "registry: the prefix after '/' must be at most {} letters, digits, '.', '_', '-' and '/'",
        kMaxPrefixBytes);
  }
  if (!prefix.empty()) options.prefix = std::string(prefix) + "/";
  return options;
}

}  // namespace

Result<std::variant<SqliteUrl, EtcdOptions>> parse_registry_url(std::string_view url) {
  using Parsed = std::variant<SqliteUrl, EtcdOptions>;
  if (url.starts_with(kSqlite)) {
    const std::string_view path = url.substr(kSqlite.size());
    if (path.empty() || path.find('\0') != std::string_view::npos) {
      return invalid("registry: which file? Example: sqlite:/var/lib/tandem/registry.db");
    }
    return Parsed(SqliteUrl{std::string(path)});
  }
  if (url.starts_with(kEtcd)) {
    TANDEM_ASSIGN(EtcdOptions options, parse_etcd(url.substr(kEtcd.size())));
    return Parsed(std::move(options));
  }
  return invalid(
      "registry: '{}' is neither sqlite:PATH (a file, for one host) nor "
      "etcd://HOST:PORT,HOST:PORT/PREFIX (for several)",
      url);
}

Result<std::unique_ptr<Registry>> open_registry(std::string_view url) {
  TANDEM_ASSIGN(auto where, parse_registry_url(url));
  if (auto* const etcd = std::get_if<EtcdOptions>(&where)) {
    return std::make_unique<Registry>(std::make_unique<EtcdStore>(std::move(*etcd)));
  }
  TANDEM_ASSIGN(auto store,
                LateStore::open([path = std::get<SqliteUrl>(where).path](
                                    bool patient) -> Result<std::unique_ptr<RegistryStore>> {
                  SqliteStoreOptions options;
                  if (!patient) options.file.busy_timeout = kFirstPatience;
                  TANDEM_ASSIGN(auto opened, SqliteStore::open(path, std::move(options)));
                  return std::unique_ptr<RegistryStore>(std::move(opened));
                }));
  return std::make_unique<Registry>(std::move(store));
}

}  // namespace tandem
