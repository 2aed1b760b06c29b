#include "scheduler/cluster/membership/registry_engines.h"

#include <algorithm>
#include <utility>

#include "base/log/log.h"

namespace tandem {

RegistryEngines::RegistryEngines(std::unique_ptr<Registry> registry, std::vector<HttpAddress> fixed,
                                 RegistryEnginesOptions options)
    : registry_(std::move(registry)), fixed_(std::move(fixed)), options_(std::move(options)) {}

RegistryEngines::~RegistryEngines() = default;

void RegistryEngines::watch(Changed changed) {
  changed_ = std::move(changed);
  if (!fixed_.empty()) changed_(fixed_);
  loop_ = std::make_unique<RegistryLoop>("registry", [this] { return follow(); });
}

Status RegistryEngines::follow() {
  if (must_read_all_) TANDEM_TRY(read_all());
  TANDEM_ASSIGN(const RegistryNews news, registry_->watch(revision_, options_.patience));
  must_read_all_ = news.lost;
  if (news.lost) return {};
  revision_ = news.revision;
  take(news);
  return {};
}

Status RegistryEngines::read_all() {
  TANDEM_ASSIGN(const RegistrySnapshot all, registry_->snapshot());
  mirror_.set(all);
  revision_ = all.revision;
  must_read_all_ = false;
  tell();
  return {};
}

void RegistryEngines::take(const RegistryNews& news) {
  if (news.engines.empty() && news.gone_engines.empty() && news.adapters.empty() &&
      news.removed_adapters.empty()) {
    if (unresolved_) tell();
    return;
  }
  mirror_.apply(news);
  tell();
}

Result<HttpAddress> RegistryEngines::address_of(const EngineEntry& engine) {
  Result<HttpAddress> address = HttpAddress::parse(engine.address);
  if (!address || !options_.resolve) return address;
  address = options_.resolve(*address);
  unresolved_ = unresolved_ || !address;
  return address;
}

// One address may have two leases for a while: an engine that was killed and started again has a
// new id, and its old lease lapses later.
void RegistryEngines::tell() {
  std::vector<HttpAddress> addresses = fixed_;
  unresolved_ = false;
  for (const auto& [id, engine] : mirror_.engines) {
    const Result<HttpAddress> address = address_of(engine);
    if (!address) {
      if (refused_.insert(engine.address).second) {
        log::warning("registry: engine {}: {}; it is left out", id, address.status().message());
      }
      continue;
    }
    refused_.erase(engine.address);
    if (std::ranges::find(addresses, *address) == addresses.end()) addresses.push_back(*address);
  }
  std::vector<OfferedAdapter> adapters;
  for (const auto& [name, versions] : mirror_.adapters) {
    const auto offer = [&](std::string as, const AdapterEntry& entry) {
      adapters.push_back({std::move(as), static_cast<std::int32_t>(entry.rank),
                          static_cast<std::int64_t>(entry.bytes), entry.digest});
    };
    offer(name, versions.rbegin()->second);
    for (const auto& [version, entry] : versions) offer(versioned_name(name, version), entry);
  }
  if (adapters_changed_ && told_adapters_ != adapters) {
    told_adapters_ = adapters;
    adapters_changed_(std::move(adapters));
  }
  if (told_ == addresses) return;
  told_ = addresses;
  changed_(std::move(addresses));
}

}  // namespace tandem
