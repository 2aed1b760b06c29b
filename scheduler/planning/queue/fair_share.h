// Fairness among tenants: virtual token counters (Sheng et al., "Fairness in Serving Large Language
// Models", 2024).
//
// Each tenant has a counter of the service it received: the tokens of its prompts, and generated
// tokens at twice the price. The tenant with the smallest counter goes first. A tenant that returns
// after a pause starts at the least counter of the present tenants, and at least at the counter of
// the last tenant that was served: unused service is not saved, and a present tenant that cannot
// proceed (low priority, slow reader) gives others no advantage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

// Not thread-safe.
class FairShare {
 public:
  static constexpr double kPromptToken = 1;
  static constexpr double kOutputToken = 2;

  struct Tenant {
    double service = 0;         // its counter
    std::int64_t requests = 0;  // waiting or running
  };

  FairShare() = default;
  FairShare(const FairShare&) = delete;
  FairShare& operator=(const FairShare&) = delete;

  // Adds a waiting request of this tenant and returns the tenant, whose address is stable until
  // leave() has been called as often. An empty name is a tenant like any other.
  Tenant& enter(std::string_view name);
  void leave(Tenant& tenant) noexcept;

  // Call it when a request of this tenant begins.
  void begin(Tenant& tenant, std::int64_t prompt_tokens) {
    last_turn_ = std::max(last_turn_, tenant.service);
    tenant.service += kPromptToken * static_cast<double>(prompt_tokens);
  }
  static void charge_output(Tenant& tenant, std::int64_t tokens) {
    tenant.service += kOutputToken * static_cast<double>(tokens);
  }

  // Tenants without requests are kept only while their counters are above start(), so that invented
  // names do not accumulate.
  std::size_t num_tenants() const { return tenants_.size(); }
  // Tenants with waiting or running requests.
  std::size_t num_present() const { return present_; }

 private:
  double start() const;
  void forget();

  std::map<std::string, Tenant, std::less<>> tenants_;  // a map, because its nodes do not move
  std::int64_t requests_ = 0;                           // of all tenants
  std::size_t present_ = 0;                             // tenants with requests
  double last_left_ = 0;         // counter of the tenant whose request left last
  double last_turn_ = 0;         // the largest counter of a tenant whose request began
  std::size_t look_above_ = 64;  // number of tenants above which forget() is called
};

// A tenant's request while it waits and runs. Moved-from or empty, it belongs to no tenant.
class TenantStay {
 public:
  TenantStay() = default;
  TenantStay(FairShare& share, std::string_view name)
      : share_(&share), tenant_(&share.enter(name)) {}  // `share` outlives it
  ~TenantStay() {
    if (tenant_ != nullptr) share_->leave(*tenant_);
  }
  TenantStay(TenantStay&& other) noexcept
      : share_(other.share_), tenant_(std::exchange(other.tenant_, nullptr)) {}
  TenantStay& operator=(TenantStay&& other) noexcept {
    std::swap(share_, other.share_);
    std::swap(tenant_, other.tenant_);
    return *this;
  }

  FairShare::Tenant* tenant() const { return tenant_; }  // null: none

 private:
  FairShare* share_ = nullptr;
  FairShare::Tenant* tenant_ = nullptr;
};

}  // namespace tandem
