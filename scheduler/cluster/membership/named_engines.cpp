#include "scheduler/cluster/membership/named_engines.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/cluster/registry/registry.h"

namespace tandem {

std::string NamedEngines::in_words() const {
  std::string given = fmt::format("{} engines", urls.size());
  if (registry.empty()) return given;
  return urls.empty() ? "the registry's engines" : given + " and the registry's";
}

Result<std::unique_ptr<EngineSource>> engine_source(const NamedEngines& named,
                                                    RegistryEnginesOptions options) {
  std::vector<HttpAddress> addresses;
  for (const std::string& url : named.urls) {
    Result<HttpAddress> address = HttpAddress::parse(url);
    if (address && options.resolve) address = options.resolve(*address);
    if (!address) return address.status().with_context("engine");
    if (std::ranges::find(addresses, *address) != addresses.end()) {
      return invalid("engine: {} is given twice", url);
    }
    addresses.push_back(*std::move(address));
  }
  if (named.registry.empty()) {
    return std::unique_ptr<EngineSource>(std::make_unique<FixedEngines>(std::move(addresses)));
  }
  TANDEM_ASSIGN(auto registry, open_registry(named.registry));
  return std::unique_ptr<EngineSource>(std::make_unique<RegistryEngines>(
      std::move(registry), std::move(addresses), std::move(options)));
}

}  // namespace tandem
